package provisioning

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// member is a pod of three cores that asks for a node; of no gang if it has no name.
func member(name, gang string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
		}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	if gang != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	}
	return p
}

// TestNoNodeIsHeldForAGangThatCannotStart: one of two pods was meant for a node, and there
// is none for the other.
func TestNoNodeIsHeldForAGangThatCannotStart(t *testing.T) {
	t.Parallel()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	for name, c := range map[string]struct {
		gang string
		held int
	}{"of a gang": {"train", 0}, "of a gang that is not known": {"strange", 0}, "of no gang": {"", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := func() time.Time { return noon }
			store := mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }})
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "p1"},
				Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")}},
			}
			if err := store.Observe(group, node, member("a", c.gang), member("b", c.gang)); err != nil {
				t.Fatal(err)
			}
			store.Assign([]cluster.PodRef{{Namespace: "default", Name: "a", UID: "a"}}, "n1")
			l := &Loop{
				Mirror: store, Launcher: &apply.Launcher{Mirror: store, PoolLaunches: &apply.PoolLaunches{}}, Quarantine: &apply.Quarantine{}, Now: now, Log: slog.New(slog.DiscardHandler),
				Metrics: observe.NewMetrics(prometheus.NewRegistry()), Events: observe.NewRecorder(record.NewFakeRecorder(20), now),
			}
			if err := l.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := store.Snapshot().Nodes[0].Planned; got != c.held {
				t.Errorf("the node is held for %d pods, want %d", got, c.held)
			}
		})
	}
}

// TestAGangIsDecidedAboutWholeAfterQuarantine of some of its pods.
func TestAGangIsDecidedAboutWholeAfterQuarantine(t *testing.T) {
	t.Parallel()
	pod := func(name, gang, planned string) cluster.Pod {
		return cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name}, Gang: gang, Planned: planned}
	}
	snap := &cluster.Snapshot{Pending: []cluster.Pod{
		pod("a-1", "a", ""), pod("a-2", "a", ""), pod("b-1", "b", "n1"), pod("b-2", "b", ""), pod("c-1", "c", ""), pod("d", "", ""), pod("e", "", "n1"),
	}}
	got := ""
	for _, p := range stillPending(snap, &cluster.Snapshot{Pending: []cluster.Pod{pod("a-2", "a", ""), pod("gone", "", "")}}) {
		got += p.Name + " "
	}
	if want := "a-1 a-2 b-1 b-2 e "; got != want {
		t.Errorf("decided about %s, want %s", got, want)
	}
}
