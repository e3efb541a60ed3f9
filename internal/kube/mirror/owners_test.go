package mirror

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// comingPod is a young pod that asks for a node.
func comingPod(name, owner string) *corev1.Pod {
	p := ownedPod(name, owner, noon.Add(-time.Second))
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func TestPodsThatAreKnownToCome(t *testing.T) {
	t.Parallel()
	untried := func(name string, change func(*corev1.Pod)) func(*Store) {
		return func(s *Store) {
			p := comingPod(name, "")
			p.OwnerReferences, p.Status.Conditions = nil, nil
			change(p)
			upsert(s, p)
		}
	}
	pod := func(name, owner string) func(*Store) { return func(s *Store) { upsert(s, comingPod(name, owner)) } }
	for name, c := range map[string]struct {
		observed []func(*Store)
		want     int
	}{
		"nothing": {nil, 0},
		"a pod that kube-scheduler has yet to try": {[]func(*Store){untried("a", func(*corev1.Pod) {})}, 1},
		"one that has been waiting for longer than any window": {[]func(*Store){untried("a", func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(noon.Add(-11 * time.Second))
		})}, 0},
		"one that is being deleted": {[]func(*Store){untried("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })}, 0},
		"one of a DaemonSet": {[]func(*Store){untried("a", func(p *corev1.Pod) {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: &yes}}
		})}, 0},
		"one with scheduling gates": {[]func(*Store){untried("a", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		})}, 0},
		"the rest of a ReplicaSet": {[]func(*Store){pod("a", "web"), pod("b", "web"), func(s *Store) { upsert(s, replicaSet("web", 5)) }}, 3},
		"a ReplicaSet that has all, and one that has too many": {[]func(*Store){
			pod("a", "web"), pod("b", "old"), pod("c", "old"), func(s *Store) { upsert(s, replicaSet("web", 1)); upsert(s, replicaSet("old", 1)) },
		}, 0},
		"a pod that is being deleted does not count as one that there is": {[]func(*Store){pod("a", "web"), func(s *Store) {
			upsert(s, replicaSet("web", 2))
			p := comingPod("b", "web")
			p.DeletionTimestamp = &metav1.Time{Time: noon}
			upsert(s, p)
		}}, 1},
		"a pod that is gone does not either": {[]func(*Store){pod("a", "web"), pod("b", "web"), func(s *Store) {
			upsert(s, replicaSet("web", 2))
			remove(s, comingPod("b", "web"))
		}}, 1},
		"a ReplicaSet without pending pods": {[]func(*Store){func(s *Store) { upsert(s, replicaSet("web", 1_000_000_000)) }}, 0},
		"a ReplicaSet whose pending pods are old": {[]func(*Store){func(s *Store) {
			upsert(s, replicaSet("web", 1_000_000_000))
			p := comingPod("a", "web")
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
			upsert(s, p)
		}}, 0},
		"a ReplicaSet that failed to create pods": {[]func(*Store){pod("a", "web"), func(s *Store) {
			rs := replicaSet("web", 1_000_000_000)
			upsert(s, rs)
			rs = rs.DeepCopy()
			rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate"}}
			upsert(s, rs)
		}}, 0},
		"a ReplicaSet that is gone": {[]func(*Store){pod("a", "web"), func(s *Store) { upsert(s, replicaSet("web", 9)); remove(s, replicaSet("web", 9)) }}, 0},
		"pods that are planned for a node": {[]func(*Store){pod("a", "web"), func(s *Store) {
			upsert(s, replicaSet("web", 9))
			s.assignments.plan("a", "n1")
		}}, 0},
		"a StatefulSet that creates pods one by one": {[]func(*Store){pod("a", "db"), func(s *Store) {
			upsert(s, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}})
		}}, 0},
		"one that creates them all at once": {[]func(*Store){pod("a", "db"), func(s *Store) {
			upsert(s, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "db"}, Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(3)), PodManagementPolicy: appsv1.ParallelPodManagement,
			}})
		}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(atNoon)
			for _, observe := range c.observed {
				observe(s)
			}
			if got := s.ComingCount(); got != c.want {
				t.Errorf("%d pods are known to come, want %d", got, c.want)
			}
		})
	}
}
