package mirror

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// owners are the controllers of pods that create as many as their specs say, one after the other.
type owners struct {
	replicas map[types.UID]int
}

func newOwners() *owners { return &owners{replicas: map[types.UID]int{}} }

// upsertReplicaSet takes in a ReplicaSet. One that failed to create pods, for lack of quota perhaps,
// is not taken to create more.
func (o *owners) upsertReplicaSet(rs *appsv1.ReplicaSet) {
	for _, c := range rs.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			delete(o.replicas, rs.UID)
			return
		}
	}
	o.upsert(rs.UID, rs.Spec.Replicas)
}

// upsertStatefulSet takes in a StatefulSet. By default it creates a pod when the one before is ready,
// which nobody waits for.
func (o *owners) upsertStatefulSet(set *appsv1.StatefulSet) {
	if set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		o.upsert(set.UID, set.Spec.Replicas)
	}
}

func (o *owners) upsert(uid types.UID, replicas *int32) {
	if replicas == nil {
		delete(o.replicas, uid)
		return
	}
	o.replicas[uid] = int(*replicas)
}

// ownerOf returns the UID of a pod's controller; empty: it has none.
func ownerOf(p *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return owner.UID
	}
	return ""
}

// ComingCount returns how many pods are known to come that may need a node: those that kube-scheduler
// has not tried yet, and those that the owners of pending pods have yet to create. Only pods that are
// younger than the longest batch window count, and the owners of such, so that an owner that never
// creates its pods, or a scheduler that never tries them, delays nobody for long.
func (s *Store) ComingCount() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	youngest := s.opts.Now().Add(-s.opts.BatchMax)
	asked := map[types.UID]bool{}
	for uid, p := range s.pods.unbound {
		switch {
		case p.object.CreationTimestamp.Time.Before(youngest):
		case isUntried(p.object) && !p.asksForNode:
			n++
		case s.assignments.needsNode(p) && s.assignments.planned[uid] == "":
			owner := ownerOf(p.object)
			if !asked[owner] {
				asked[owner] = true
				n += max(0, s.owners.replicas[owner]-s.pods.owned[owner])
			}
		}
	}
	return n
}

// isUntried reports whether kube-scheduler has yet to try an unbound pod that may ask for a node.
func isUntried(p *corev1.Pod) bool {
	return scheduled(p) == nil && translate.Active(p) && !translate.OwnedByDaemonSet(p) && !translate.Mirror(p) && !translate.Unwanted(p)
}
