package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// targetOf returns the node that a pod will be on whose command has all replacements; nil: it has
// none. These commands come before all others: else pods whose own nodes are still to come would
// seem to take the room.
func (f *future) targetOf(ref cluster.PodRef) *cluster.Node {
	if f.over == nil {
		f.over, f.targets = newOverlay(f.work.snap), map[cluster.PodRef]*cluster.Node{}
		f.over.snap.Pending, f.unplanned = split(f.work.snap.Pending)
		f.findTargets(f.work.nodesOfCommands(f.work.arrived))
	}
	return f.targets[ref]
}

// ahead returns the cluster as it will be. Pending pods without a target node come last: nodes of
// their own are launched for them (Reserve).
func (f *future) ahead() *overlay {
	if !f.isWhole {
		f.isWhole = true
		f.targetOf(cluster.PodRef{})
		f.findTargets(f.work.nodesOfCommands(func(c *command) bool { return !f.work.arrived(c) }))
		if f.over.snap.Pending = append(f.over.snap.Pending, f.unplanned...); len(f.unplanned) > 0 {
			f.over.remove(nil) // which puts pending pods in order
		}
		f.findTargets(nil)
	}
	return f.over
}

// findTargets removes these nodes, and finds target nodes for their pods and all pending ones.
func (f *future) findTargets(nodes []int) {
	if len(nodes) > 0 {
		f.over.remove(nodes)
	}
	if len(f.over.snap.Pending) == 0 {
		return
	}
	p := f.planTargets(nodes)
	f.over.assign(p.Assignments)
	for _, m := range p.Assignments {
		f.targets[m.Pod] = &f.work.snap.Nodes[f.over.at[m.Node]]
	}
}

// split divides pending pods into those with a target node and the others. Those with one keep it
// even if their gang is not complete: the next plan for pending pods decides about that.
func split(pending []cluster.Pod) (planned, unplanned []cluster.Pod) {
	for i := range pending {
		if pending[i].Planned != "" {
			p := pending[i]
			p.Gang = ""
			planned = append(planned, p)
			continue
		}
		unplanned = append(unplanned, pending[i])
	}
	return planned, unplanned
}

// planTargets plans the pending pods, among them those of the nodes, which have been removed. These
// go to running nodes if they can, because kube-scheduler binds them there without asking what could
// be launched. Nodes that go soon themselves take pods only if there is no other way.
func (f *future) planTargets(nodes []int) plan.Plan {
	spared := closed(f.over.snap, f.work.goesSoon)
	if len(nodes) > 0 {
		there := *spared
		there.Pools = nil
		if p := f.work.decidePods(&there); f.placesAll(nodes, &p) {
			return p
		}
	}
	p := f.work.decidePods(spared)
	if !f.placesAll(nodes, &p) {
		return f.work.decidePods(f.over.snap)
	}
	return p
}

// placesAll reports whether a plan assigns every pod of the nodes to an existing node.
func (f *future) placesAll(nodes []int, p *plan.Plan) bool {
	placed := make(map[cluster.PodRef]bool, len(p.Assignments))
	for _, m := range p.Assignments {
		placed[m.Pod] = true
	}
	for _, i := range nodes {
		if slices.ContainsFunc(f.work.snap.Nodes[i].Reschedulable, func(r cluster.ReschedulablePod) bool { return r.Buffer == "" && !placed[r.PodRef] }) {
			return false
		}
	}
	return true
}

// meant returns why a node stays for pods that will come to it.
func (f *future) meant(i int) verdict.Verdict {
	if n := &f.ahead().snap.Nodes[i]; n.Planned > 0 {
		return meantFor(n)
	}
	return verdict.Verdict{}
}
