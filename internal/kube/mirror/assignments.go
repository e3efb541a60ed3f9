package mirror

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/nominate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// reservedMin is the least time for which a node is kept from removal for pods that are planned
// for it and have yet to be evicted from another.
const reservedMin = 10 * time.Second

// assignments hold which node each pod is planned for, and the nominations that were written
// to the API server for it.
type assignments struct {
	pods      *podIndex
	nodes     *nodeIndex
	gangs     *gangs
	listeners *listeners

	planned     map[types.UID]string          // pod → name of a Node or NodeClaim; see plan
	plannedFor  map[string]map[types.UID]bool // the other way round
	reserved    map[string]time.Time          // node → until when it is kept from removal
	nominations map[types.UID]nomination      // those that this process wrote, by pod
	// lastEvent is when the last event of a planned or nominated pod was seen.
	lastEvent time.Time
}

// nomination is what is remembered of a status.nominatedNodeName that this process wrote.
type nomination struct {
	node   string
	writes int
	at     time.Time // of the last write
	// isSeen: the watch has shown the last write.
	isSeen bool
}

func newAssignments(pods *podIndex, nodes *nodeIndex, g *gangs, l *listeners) *assignments {
	return &assignments{
		pods: pods, nodes: nodes, gangs: g, listeners: l,
		planned: map[types.UID]string{}, plannedFor: map[string]map[types.UID]bool{}, reserved: map[string]time.Time{}, nominations: map[types.UID]nomination{},
	}
}

// assign plans a pod for a node. If the pod runs on another node it will be evicted, and its
// replacement will be a pod that nobody knows yet: so the new node is kept from removal for a
// time.
func (x *assignments) assign(p *pod, node string, now time.Time, reserve time.Duration) {
	if x.planned[p.object.UID] != node {
		x.plan(p.object.UID, node)
		p.history.plannedAt = now
	}
	if p.object.Spec.NodeName != "" {
		x.reserved[node] = now.Add(max(reservedMin, reserve))
	}
}

// plan notes which node a pod is planned for; empty: none any more.
func (x *assignments) plan(uid types.UID, node string) {
	if had, is := x.planned[uid]; is {
		delete(x.planned, uid)
		delete(x.plannedFor[had], uid)
		if len(x.plannedFor[had]) == 0 {
			delete(x.plannedFor, had)
		}
	}
	if node == "" {
		return
	}
	if x.plannedFor[node] == nil {
		x.plannedFor[node] = map[types.UID]bool{}
	}
	x.planned[uid], x.plannedFor[node][uid] = node, true
}

// swap plans another pod for the node that a pod was planned for which is now bound elsewhere: one like it that
// is planned for the node where it is, and that kube-scheduler has not refused to bind to the other one before. It
// reports whether there is one.
func (x *assignments) swap(p *pod, planned string, now time.Time) bool {
	names := []string{p.object.Spec.NodeName}
	if c := x.nodes.claimOf(p.object.Spec.NodeName); c != nil {
		names = append(names, c.object.Name)
	}
	host := ""
	if n := x.nodes.joined(planned); n != nil {
		host = n.Labels[corev1.LabelHostname]
	}
	var twin *pod
	for _, name := range names {
		for uid := range x.plannedFor[name] {
			if other := x.pods.unbound[uid]; other != nil && isAlike(p, other) && !slices.Contains(other.history.refusedBy, host) && (twin == nil || uid < twin.object.UID) {
				twin = other
			}
		}
	}
	if twin == nil {
		return false
	}
	x.assign(twin, planned, now, 0)
	return true
}

// unassign forgets which node a pod is planned for and reports whether it was for any.
func (x *assignments) unassign(uid types.UID) (was bool) {
	_, was = x.planned[uid]
	x.plan(uid, "")
	return was
}

// forget drops what is known of a pod that is gone.
func (x *assignments) forget(uid types.UID) {
	x.plan(uid, "")
	delete(x.nominations, uid)
}

// expire drops reservations that are over, and plans for nodes that are gone.
func (x *assignments) expire(now time.Time) {
	maps.DeleteFunc(x.reserved, func(_ string, until time.Time) bool { return now.After(until) })
	for uid, node := range x.planned {
		if !x.nodes.has(node) {
			x.plan(uid, "")
		}
	}
}

// assumeNomination counts a nomination that is about to be written.
func (x *assignments) assumeNomination(uid types.UID, node string, now time.Time) {
	n := x.nominations[uid]
	if n.node != node {
		n = nomination{node: node}
	}
	n.writes, n.at, n.isSeen = n.writes+1, now, false
	x.nominations[uid] = n
}

// dropNomination stops waiting for the watch to show a nomination: its write failed.
func (x *assignments) dropNomination(uid types.UID) {
	if n, ok := x.nominations[uid]; ok {
		n.isSeen = true
		x.nominations[uid] = n
	}
}

// needsNode reports whether a pod waits for a new node. A pod for which kube-scheduler preempts
// others does not wait. A pod that this process nominated does, as does one that is nominated
// for a node that does not exist.
func (x *assignments) needsNode(p *pod) bool {
	return p.asksForNode && !x.preempts(p) && (!p.hasFailed || len(x.nodes.nodes) == 0 || x.planned[p.object.UID] != "")
}

// preempts reports whether kube-scheduler is making room for a pod on an existing node.
func (x *assignments) preempts(p *pod) bool {
	nominated := p.object.Status.NominatedNodeName
	return nominated != "" && x.nodes.nodes[nominated] != nil && !x.isOurs(p)
}

// isOurs reports whether a pod is nominated for the node that it is planned for.
func (x *assignments) isOurs(p *pod) bool {
	nominated := p.object.Status.NominatedNodeName
	if nominated == "" {
		return false
	}
	if n, ok := x.nominations[p.object.UID]; ok && n.node == nominated {
		return true
	}
	n := x.nodes.joined(x.planned[p.object.UID])
	return n != nil && n.Name == nominated
}

// see records what a new state of a pod says of its nomination. It must be called before
// unassign, which forgets the planned node of a bound pod.
func (x *assignments) see(had, p *pod, now time.Time) {
	seeAttempt(had, p, now)
	uid := p.object.UID
	planned, isPlanned := x.planned[uid]
	n, isNominated := x.nominations[uid]
	switch {
	case p.object.Spec.NodeName != "":
		if isPlanned && had != nil && had.object.Spec.NodeName == "" {
			x.listeners.reportOutcome(x.outcome(p, planned, now))
		}
		delete(x.nominations, uid)
		p.history.refusedBy = nil
	case isNominated && p.object.Status.NominatedNodeName == n.node:
		isOwnWrite := !n.isSeen && had != nil && had.object.Status.NominatedNodeName != n.node
		n.isSeen = true
		x.nominations[uid] = n
		if isOwnWrite {
			x.listeners.reportNomination()
			return
		}
	}
	if isPlanned || isNominated {
		x.lastEvent = now
		x.listeners.reportNomination()
	}
}

// outcome says whether a pod was bound to a node that it, or one like it, was planned for.
func (x *assignments) outcome(p *pod, planned string, now time.Time) Outcome {
	if n := x.nodes.joined(planned); n != nil && n.Name == p.object.Spec.NodeName || x.swap(p, planned, now) {
		return AsPlanned
	}
	return Elsewhere
}

// seeAttempt counts the failed attempts of kube-scheduler to place a pod. An attempt is seen
// only if kube-scheduler wrote another message or took its nomination back.
func seeAttempt(had, p *pod, now time.Time) {
	why := scheduled(p.object)
	if had == nil {
		p.history.triedAt = now
	}
	if why == nil || why.Status == corev1.ConditionTrue {
		return
	}
	if had != nil {
		lost := had.object.Status.NominatedNodeName != "" && p.object.Status.NominatedNodeName == ""
		if before := scheduled(had.object); before != nil && before.Message == why.Message && !lost {
			return
		}
	}
	p.history.tries, p.history.triedAt = p.history.tries+1, now
}

// giveUp stops planning pods for nodes where kube-scheduler keeps refusing to bind them, and
// excludes those nodes for these pods.
func (x *assignments) giveUp(now time.Time) {
	if len(x.pods.unbound) == 0 {
		return
	}
	var stuck []nominate.Stuck
	already := 0
	for _, p := range x.pods.unbound {
		if len(p.history.refusedBy) > 0 {
			already++
		}
		if since, isStuck := x.stuckSince(p); isStuck {
			triedAt := p.history.triedAt
			if isDrained(x.nodes.joined(x.planned[p.object.UID])) {
				triedAt = now // kube-scheduler says nothing new of a pod that it refuses for the same reason as before
			}
			stuck = append(stuck, nominate.Stuck{PodRef: translate.PodRef(p.object), Since: since, TriedAt: triedAt, Times: len(p.history.refusedBy)})
		}
	}
	slices.SortFunc(stuck, func(a, b nominate.Stuck) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range nominate.Elsewhere(now, stuck, already) {
		uid := types.UID(ref.UID)
		p := x.pods.unbound[uid]
		p.history.refusedBy = append(slices.Clone(p.history.refusedBy), x.nodes.joined(x.planned[uid]).Labels[corev1.LabelHostname])
		x.plan(uid, "")
		x.listeners.reportOutcome(Refused)
	}
}

// stuckSince reports whether kube-scheduler could bind a pod to its planned node, and since when.
func (x *assignments) stuckSince(p *pod) (since time.Time, isStuck bool) {
	n := x.nodes.joined(x.planned[p.object.UID])
	if n == nil || stage(n) != nominate.Open || !isOpenButForOurTaint(n) || n.Labels[corev1.LabelHostname] == "" {
		return since, false
	}
	since = p.history.plannedAt
	if c := x.nodes.claimOf(n.Name); c != nil {
		initialized := meta.FindStatusCondition(c.object.Status.Conditions, karpenterv1.ConditionTypeInitialized)
		if initialized == nil || initialized.Status != metav1.ConditionTrue {
			return since, false
		}
		if isComingBack(n, c.object) {
			return since, false
		}
		if at := initialized.LastTransitionTime.Time; at.After(since) {
			since = at
		}
	}
	return since, true
}

// isComingBack reports whether a Node is rebooted: the cloud has accepted that, or a bound ends its drain. Where nothing
// bounds the drain it may be waiting for the very pod, which a PodDisruptionBudget misses.
func isComingBack(n *corev1.Node, nc *karpenterv1.NodeClaim) bool {
	reboot := translate.RebootClaim(nc)
	return isDrained(n) && (reboot.IsIssued || reboot.Unreadable == "" && reboot.Bound.IsSet)
}

// isDrained reports whether a Node is drained for its reboot: its taint keeps pods away.
func isDrained(n *corev1.Node) bool {
	taint := karpenterv1.RebootingTaint()
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// isOpenButForOurTaint reports whether nothing but our own taint keeps pods from a Node.
func isOpenButForOurTaint(n *corev1.Node) bool {
	return translate.NodeReady(n) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return !translate.IsUnregisteredTaint(t) && translate.IsEphemeralTaint(t)
	})
}

func stage(n *corev1.Node) nominate.Stage {
	if slices.ContainsFunc(n.Spec.Taints, translate.IsUnregisteredTaint) {
		return nominate.Closed
	}
	return nominate.Open
}
