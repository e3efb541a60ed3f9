package mirror

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// pod is one pod that is neither succeeded nor failed.
type pod struct {
	object      *corev1.Pod
	constraints *sharedConstraints
	// asksForNode: kube-scheduler found no node for the pod, or for one like it, and a node of ours may help.
	asksForNode bool
	// hasFailed: it asks, but because of an error of kube-scheduler. The absence of any Node
	// may be the cause.
	hasFailed bool
	// hasClaims: the pod has volume claims.
	hasClaims bool
	history   history
}

// history is what is remembered of a pod beyond its object. It passes from one state of the
// pod to the next.
type history struct {
	// tries counts the failed attempts of kube-scheduler that were seen; triedAt is the last, or when
	// the pod was first seen, if that was before any attempt.
	tries   int
	triedAt time.Time
	// isPresumed: the pod asks for a node because kube-scheduler found none for a pod like it.
	isPresumed bool
	// plannedAt is when the pod was planned for its present node.
	plannedAt time.Time
	// refusedBy are the hostnames of planned nodes where kube-scheduler did not bind the pod.
	refusedBy []string
	// movedAt is when the pod was created in the place of an evicted one; zero: not known to be.
	movedAt time.Time
	// moves counts such replacements in a row, each soon after the last.
	moves int
	// target is the node that a disruption command has chosen for the pod; targetOf is the command.
	target, targetOf string
}

// targetBy returns the node that a disruption command has chosen for the pod; empty: none.
func (h *history) targetBy(command string) string {
	if command == "" || h.targetOf != command {
		return ""
	}
	return h.target
}

// sharedConstraints are constraints with the number of pods that share them. They are dropped
// with the last pod.
type sharedConstraints struct {
	constraints *cluster.Constraints
	key         string
	pods        int
	// variants are the constraints with volumes added, by the text of the volumes. They are valid
	// for volumesVersion of the volumes.
	variants       map[string]*cluster.Constraints
	volumesVersion uint64
	// isHeld are the constraints heldFrom of a pod that is not moved by choice; nil: never asked for.
	isHeld, heldFrom *cluster.Constraints
}

// withVolumes returns the constraints with volumes added. Equal volumes give the same pointer
// until the version of the volumes changes; then all variants are dropped, which bounds their
// number.
func (sh *sharedConstraints) withVolumes(v *cluster.Volumes, version uint64) *cluster.Constraints {
	if sh.volumesVersion != version {
		sh.variants, sh.volumesVersion = map[string]*cluster.Constraints{}, version
	}
	key := v.String()
	if sh.variants[key] == nil {
		sh.variants[key] = sh.constraints.WithVolumes(v)
	}
	return sh.variants[key]
}

// podIndex holds the pods and the constraints that they share.
type podIndex struct {
	vocabulary translate.Vocabulary
	siblings   *siblings

	all            map[types.UID]*pod
	unbound        map[types.UID]*pod // those of them that are bound to no node
	byNode         map[string][]*pod  // sorted by namespace and name
	constraintSets map[string]*sharedConstraints
	owned          map[types.UID]int  // how many there are of each owner, without those that are being deleted
	lastOwned      map[types.UID]*pod // the one of them that was added last
}

func newPodIndex(vocabulary translate.Vocabulary, siblings *siblings) *podIndex {
	return &podIndex{
		vocabulary: vocabulary, siblings: siblings,
		all: map[types.UID]*pod{}, unbound: map[types.UID]*pod{}, byNode: map[string][]*pod{}, constraintSets: map[string]*sharedConstraints{},
		owned: map[types.UID]int{}, lastOwned: map[types.UID]*pod{},
	}
}

// read makes a pod from its object and counts it at its constraints. It does not add it to the
// index. had is the state before; nil: there is none.
func (x *podIndex) read(object *corev1.Pod, had *pod) *pod {
	asks, failed := asksForNode(object)
	p := &pod{object: object, asksForNode: asks, hasFailed: failed, hasClaims: len(translate.ClaimsOf(object)) > 0}
	if had == nil {
		had = x.lastOwned[ownerOf(object)] // pods of one workload are nearly always alike
	}
	if had != nil && x.constraintSets[had.constraints.key] == had.constraints && len(x.siblings.constraints) == 0 && translate.SameConstraints(had.object, object) {
		p.constraints = had.constraints
		p.constraints.pods++
	} else {
		p.constraints = x.constraints(object)
	}
	return p
}

// add puts a pod into the index. An earlier state of the pod must have been released before.
func (x *podIndex) add(p *pod) {
	x.all[p.object.UID] = p
	x.countOwned(p, 1)
	if p.object.Spec.NodeName == "" {
		x.unbound[p.object.UID] = p
		return
	}
	delete(x.unbound, p.object.UID)
	on := x.byNode[p.object.Spec.NodeName]
	at, _ := slices.BinarySearchFunc(on, p, byName)
	x.byNode[p.object.Spec.NodeName] = slices.Insert(on, at, p)
}

// release takes a state of a pod from its constraints and its node.
func (x *podIndex) release(p *pod) {
	x.releaseConstraints(p.constraints)
	x.countOwned(p, -1)
	on := x.byNode[p.object.Spec.NodeName]
	at, is := slices.BinarySearchFunc(on, p, byName)
	switch {
	case !is:
	case len(on) == 1:
		delete(x.byNode, p.object.Spec.NodeName)
	default:
		x.byNode[p.object.Spec.NodeName] = slices.Delete(on, at, at+1)
	}
}

// countOwned counts a pod at its owner.
func (x *podIndex) countOwned(p *pod, by int) {
	owner := ownerOf(p.object)
	if owner == "" || p.object.DeletionTimestamp != nil {
		return
	}
	if x.owned[owner] += by; x.owned[owner] == 0 {
		delete(x.owned, owner)
		delete(x.lastOwned, owner)
	} else if by > 0 {
		x.lastOwned[owner] = p
	}
}

// forget drops a pod that has been released.
func (x *podIndex) forget(uid types.UID) {
	delete(x.all, uid)
	delete(x.unbound, uid)
}

// byName is the order of the pods of a node: what is said of a node must not change from one
// snapshot to the next.
func byName(a, b *pod) int {
	return cmp.Or(
		cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name),
		cmp.Compare(a.object.UID, b.object.UID),
	)
}

// constraints returns the constraints that a pod shares with pods that are alike, and counts
// the pod there.
func (x *podIndex) constraints(p *corev1.Pod) *sharedConstraints {
	p = x.siblings.withDefaults(p)
	key := translate.ConstraintsKey(p)
	sh := x.constraintSets[key]
	if sh == nil {
		sh = &sharedConstraints{constraints: translate.PodConstraints(p, x.vocabulary), key: key}
		x.constraintSets[key] = sh
	}
	sh.pods++
	return sh
}

func (x *podIndex) releaseConstraints(sh *sharedConstraints) {
	if sh.pods--; sh.pods == 0 {
		delete(x.constraintSets, sh.key)
	}
}

// readConstraints reads the constraints of a namespace's unbound pods again, because the objects
// that say which pods belong together have changed.
func (x *podIndex) readConstraints(namespace string) {
	for _, p := range x.unbound {
		if p.object.Namespace == namespace {
			had := p.constraints
			p.constraints = x.constraints(p.object)
			x.releaseConstraints(had)
		}
	}
}

// asksForNode reports whether kube-scheduler found no node for the pod, and whether it failed
// with an error instead. DaemonSet pods, static pods and pods that exclude our nodes never ask.
// Without any Node in the cluster, kube-scheduler 1.37 fails with an error for the pods of a
// PodGroup.
func asksForNode(p *corev1.Pod) (asks, failed bool) {
	if p.Spec.NodeName != "" || !translate.Active(p) ||
		translate.OwnedByDaemonSet(p) || translate.Mirror(p) || translate.Unwanted(p) {
		return false, false
	}
	why := scheduled(p)
	if why == nil {
		return false, false
	}
	failed = why.Reason == corev1.PodReasonSchedulerError && translate.PodGroupOf(p) != ""
	return failed || why.Reason == corev1.PodReasonUnschedulable, failed
}

// scheduled returns the condition PodScheduled; nil: there is none.
func scheduled(p *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}
