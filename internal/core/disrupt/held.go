package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// HoldKind is what a node is held by.
type HoldKind string

// What may hold a node.
const (
	HeldByNobody     HoldKind = ""
	HeldByPool       HoldKind = "NodePool"
	HeldByReboot     HoldKind = "Reboot"
	HeldByStart      HoldKind = "Start"
	HeldByAnnotation HoldKind = "Annotation"
	HeldByPlan       HoldKind = "PlannedPods"
	HeldByCommand    HoldKind = "Command"
	HeldByPDB        HoldKind = "PodDisruptionBudget"
)

// Hold is why a node may not be disrupted by our choice now. The zero Hold: it may be.
type Hold struct {
	Why  verdict.Verdict
	Kind HoldKind
	// Object is what holds it: the namespace/name of the pod or PodDisruptionBudget, or the
	// name of the node or NodePool.
	Object string
}

// Holds says what holds the nodes of a snapshot.
type Holds struct {
	snap *cluster.Snapshot
	// moving are the ids of commands whose nodes still have pods.
	moving map[string]bool
}

// NewHolds returns what holds the nodes of a snapshot.
func NewHolds(snap *cluster.Snapshot) *Holds {
	h := &Holds{snap, map[string]bool{}}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; n.DisruptionReason != "" && n.Claim != "" && n.Step != "" && !(n.Deleting && n.Empty) {
			h.moving[n.Step] = true
		}
	}
	return h
}

// Of returns what holds a node that is to be disrupted for no reason that must be: what keeps
// it from consolidation.
func (h *Holds) Of(n *cluster.Node) Hold {
	return holdOf(h.snap, n, false, func() bool { return n.Replaces != "" && h.moving[n.Replaces] })
}

// holdOf returns what holds a node. With eventually, the node has to be replaced in the end: then its
// pods do not hold it if its NodeClaim has a terminationGracePeriod. replaces reports whether it is the
// replacement of nodes that still have pods.
func holdOf(snap *cluster.Snapshot, n *cluster.Node, eventually bool, replaces func() bool) Hold {
	no := func(kind HoldKind, object, format string, args ...any) Hold {
		return Hold{verdict.Of(verdict.NodeBlocked, n.Name, format, args...), kind, object}
	}
	forgiven := eventually && n.HasGrace
	_, ok := snap.PoolByName(n.Pool)
	switch {
	case !ok:
		return no(HeldByPool, n.Pool, "its NodePool %q does not exist", n.Pool)
	case n.Rebooting:
		return no(HeldByReboot, n.Name, "node is rebooting")
	case !n.Initialized:
		return no(HeldByStart, n.Name, "it is not initialized")
	case n.DoNotDisrupt != "" && !(forgiven && n.DoNotDisruptByPods):
		return no(HeldByAnnotation, n.Name, "%s", n.DoNotDisrupt)
	case n.Planned > 0:
		return Hold{meantFor(n), HeldByPlan, n.Name}
	case replaces():
		return no(HeldByCommand, n.Name, "it replaces nodes whose pods are still to come")
	case forgiven:
		return Hold{}
	}
	for i := range n.Reschedulable {
		r := &n.Reschedulable[i]
		if r.DoNotDisrupt != "" {
			return no(HeldByAnnotation, r.String(), "pod %s has %s", r, r.DoNotDisrupt)
		}
		for _, g := range r.PDBs {
			if pdb := &snap.PDBs[g]; pdb.Allowed <= 0 {
				return no(HeldByPDB, pdb.Name, "pod %s: PodDisruptionBudget %s allows no eviction now", r, pdb.Name)
			}
		}
	}
	return Hold{}
}
