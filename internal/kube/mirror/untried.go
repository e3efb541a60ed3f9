package mirror

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// untried are the pods that kube-scheduler has not tried yet. It tries one after the other and writes
// down what it found of each, 50 a second with its default rate limit. When it has found no node for a
// pod of an owner, it will find none for pods of that owner that are the same: they ask for a node now.
type untried struct {
	byOwner map[types.UID]map[types.UID]*pod // those that do not ask yet
	refused map[types.UID]*pod               // by owner, the pod that was last seen to be refused
}

func newUntried() *untried {
	return &untried{byOwner: map[types.UID]map[types.UID]*pod{}, refused: map[types.UID]*pod{}}
}

// add takes in a pod and returns the pods that ask for a node from now on, though kube-scheduler has not
// tried them. A pod that asks keeps asking until kube-scheduler tries it. needsNode: kube-scheduler has refused the
// pod, and does not preempt others for it, as it might for pods like it.
func (u *untried) add(p *pod, needsNode bool) (asking []*pod) {
	owner := ownerOf(p.object)
	switch {
	case owner == "" || p.object.Spec.NodeName != "" || !isAlike(p, p):
	case needsNode:
		u.refused[owner] = p
		for uid, other := range u.byOwner[owner] {
			if isAlike(p, other) {
				u.drop(owner, uid)
				asking = append(asking, other)
			}
		}
	case !isUntried(p.object):
	case p.history.isPresumed || u.refused[owner] != nil && isAlike(p, u.refused[owner]):
		asking = append(asking, p)
	default:
		if u.byOwner[owner] == nil {
			u.byOwner[owner] = map[types.UID]*pod{}
		}
		u.byOwner[owner][p.object.UID] = p
	}
	for _, one := range asking {
		one.asksForNode, one.history.isPresumed = true, true
	}
	return asking
}

// remove forgets a state of a pod.
func (u *untried) remove(p *pod) {
	owner := ownerOf(p.object)
	if u.refused[owner] == p {
		delete(u.refused, owner)
	}
	u.drop(owner, p.object.UID)
}

func (u *untried) drop(owner, uid types.UID) {
	delete(u.byOwner[owner], uid)
	if len(u.byOwner[owner]) == 0 {
		delete(u.byOwner, owner)
	}
}

// isAlike reports whether what kube-scheduler finds for one pod holds for the other. It holds for no other where a pod
// claims volumes or devices, which may be on some nodes only, or is placed with its gang. So such a pod is not alike to
// itself either.
func isAlike(a, b *pod) bool {
	return a.constraints == b.constraints && a.object.Spec.SchedulerName == b.object.Spec.SchedulerName &&
		ptr.Equal(a.object.Spec.Priority, b.object.Spec.Priority) && isAlone(a) && isAlone(b)
}

// isAlone reports whether a pod has no claims and no gang.
func isAlone(p *pod) bool {
	return !p.hasClaims && !translate.ClaimsDevices(p.object) && translate.PodGroupOf(p.object) == ""
}
