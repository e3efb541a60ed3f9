package describe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

var begun = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// live returns what says what the objects are a minute after their creation.
func live(t *testing.T, objects ...client.Object) journal.Live {
	t.Helper()
	now := func() time.Time { return begun.Add(time.Minute) }
	store := mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }})
	for _, o := range objects {
		o.SetCreationTimestamp(metav1.NewTime(begun))
		o.SetUID(types.UID("uid of " + o.GetName()))
		if err := store.Observe(o); err != nil {
			t.Fatal(err)
		}
	}
	return Live(store, now)
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	change(p)
	return p
}

func unschedulable(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

// TestEveryPodThatExistsIsDescribed has a pod for each thing that a pod may wait for, and wants the first
// line of the answer, and an end of each.
func TestEveryPodThatExistsIsDescribed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change    func(*corev1.Pod)
		now, ends string
	}{
		"it runs": {func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning }, "runs on node n1", ""},
		"it starts": {
			func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodPending },
			"is bound to node n1 and does not run yet (Pending)", "the kubelet has started its containers: kubectl describe pod says more",
		},
		"it is gated": {
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} },
			"is left alone for 1m0s: it has the scheduling gates quota", "whoever set the gates removes them",
		},
		"another scheduler's": {
			func(p *corev1.Pod) { p.Spec.SchedulerName = "other" },
			"is left alone for 1m0s: the scheduler other has not said that no node has room for it",
			"that scheduler says so in the pod's condition PodScheduled (Unschedulable), or binds it; if none of that name runs, neither happens",
		},
		"no node has room": {unschedulable, "waits for 1m0s: no node has room for it", ""},
		"it wants no NodePool": {
			func(p *corev1.Pod) {
				unschedulable(p)
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: karpenterv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist}}}},
				}}}
			},
			"is left alone: its affinity excludes nodes of NodePools", "the affinity is changed, or another node has room",
		},
		"a DaemonSet's": {
			func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", APIVersion: "apps/v1", Name: "d", Controller: new(true)}}
			},
			"is left alone: it is of a DaemonSet, for which no node is launched", "the node that it is meant for has room",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := live(t, pod("w", tc.change))
			for _, kind := range []string{"", journal.KindPod} {
				got := answer(journal.Subject{Kind: kind, Namespace: "shop", Name: "w"})
				if len(got) != 1 || got[0].Now != tc.now || got[0].Ends != tc.ends {
					t.Errorf("kind %q: it says %+v, want %q until %q", kind, got, tc.now, tc.ends)
				}
			}
			if got := answer(journal.Subject{Kind: journal.KindPod, Namespace: "elsewhere", Name: "w"}); got != nil {
				t.Errorf("in another namespace there is %+v", got)
			}
		})
	}
}

func TestNodesAndClaimsAreDescribed(t *testing.T) {
	t.Parallel()
	claim := func(conditions ...metav1.Condition) *karpenterv1.NodeClaim {
		nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-abc", Labels: map[string]string{karpenterv1.NodePoolLabelKey: "general"}}}
		nc.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "test.sh", Kind: "Class", Name: "default"}
		nc.Status.Conditions = conditions
		return nc
	}
	is := func(kind string) metav1.Condition { return metav1.Condition{Type: kind, Status: metav1.ConditionTrue} }
	for name, tc := range map[string]struct {
		object client.Object
		asked  journal.Subject
		now    string
	}{
		"no NodeClaim": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, journal.Subject{Kind: journal.KindNode, Name: "n1"}, "runs; it has no NodeClaim"},
		"asked for":    {claim(), journal.Subject{Kind: journal.KindClaim, Name: "general-abc"}, "is being launched since 1m0s"},
		"refused": {
			claim(metav1.Condition{Type: karpenterv1.ConditionTypeLaunched, Status: metav1.ConditionFalse, Reason: "NoCapacity", Message: "none"}),
			journal.Subject{Name: "general-abc"},
			"is not launched after 1m0s: NoCapacity: none",
		},
		"launched": {claim(is(karpenterv1.ConditionTypeLaunched)), journal.Subject{Kind: journal.KindClaim, Name: "general-abc"}, "is launched and has not joined after 1m0s"},
		"initialized": {
			claim(is(karpenterv1.ConditionTypeLaunched), is(karpenterv1.ConditionTypeRegistered), is(karpenterv1.ConditionTypeInitialized)),
			journal.Subject{Kind: journal.KindClaim, Name: "general-abc"},
			"runs with 0 pods for 1m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := live(t, tc.object)(tc.asked); len(got) != 1 || got[0].Now != tc.now {
				t.Errorf("it says %+v, want %q", got, tc.now)
			}
		})
	}
}

// TestAWorkloadIsItsPods asks about a Deployment of which one pod runs, one waits and one is gated.
func TestAWorkloadIsItsPods(t *testing.T) {
	t.Parallel()
	of := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := pod(name, change)
		p.Labels = map[string]string{"pod-template-hash": "77f"}
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", APIVersion: "apps/v1", Name: "web-77f", Controller: new(true)}}
		return p
	}
	answer := live(
		t, of("web-1", func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning }), of("web-2", unschedulable),
		of("web-3", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }), pod("other", unschedulable),
	)
	for _, kind := range []string{"deployment", "replicaset"} {
		name := map[string]string{"deployment": "web", "replicaset": "web-77f"}[kind]
		got := answer(journal.Subject{Kind: kind, Name: name})
		if len(got) != 1 || got[0].Now != "3 pods: 1 have a node (1 nodes), 2 wait" {
			t.Fatalf("%s: it says %+v", kind, got)
		}
		if diff := cmp.Diff([]string{"1 left alone: it has the scheduling gates quota (web-3)"}, got[0].Facts); diff != "" {
			t.Errorf("%s: facts (-want +got):\n%s", kind, diff)
		}
	}
	if got := answer(journal.Subject{Kind: "deployment", Name: "we"}); got != nil {
		t.Errorf("a Deployment that there is not: %+v", got)
	}
}
