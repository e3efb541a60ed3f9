package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// replacer proposes to replace nodes, one by one.
type replacer struct {
	work   *work
	taints *softTaints
	// probes is for how many more nodes this decision may work out replacements.
	probes int
	// noneFound: the last node for which a replacement was worked out has none.
	noneFound bool
}

// drifted proposes to replace drifted nodes: those without pods first, then those that drifted first.
func (r *replacer) drifted() {
	r.replace(Drifted, func(n *cluster.Node) bool { return n.Drifted != "" }, func(a, b *cluster.Node) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Reschedulable)), min(1, len(b.Reschedulable))), a.DriftedSince.Compare(b.DriftedSince))
	})
}

// interrupted proposes to replace nodes that the cloud interrupts. When little time is left, neither
// budgets nor pods are asked: the node is lost anyway, and only a replacement helps its pods.
func (r *replacer) interrupted() {
	r.replace(Interrupted, func(n *cluster.Node) bool { return n.Reclaimed != "" && !r.work.snap.At.Before(DueAt(n)) }, func(a, b *cluster.Node) int {
		return a.Expires.Compare(b.Expires)
	})
}

// expired proposes to replace nodes before they expire, so that other nodes are ready for their pods.
// Expired nodes are removed without asking (core/lifecycle).
func (r *replacer) expired() {
	r.replace(Expired, func(n *cluster.Node) bool {
		return n.Reclaimed == "" && !n.Expires.IsZero() && !r.work.snap.At.Before(DueAt(n))
	}, func(a, b *cluster.Node) int {
		return a.Expires.Compare(b.Expires)
	})
}

// replace proposes a command for each wanted node, in order. If a node has no replacement now, the next
// is still considered.
func (r *replacer) replace(reason string, wanted func(*cluster.Node) bool, order func(a, b *cluster.Node) int) {
	var candidates []int
	for i := range r.work.snap.Nodes {
		n := &r.work.snap.Nodes[i]
		if !r.work.taken[i] && !n.Deleting && n.Claim != "" && wanted(n) {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return order(&r.work.snap.Nodes[a], &r.work.snap.Nodes[b]) })
	for _, i := range candidates {
		n := &r.work.snap.Nodes[i]
		why := r.irreplaceable(n, reason)
		if why.IsYes() && !r.work.urgent(n, reason) && (reason != Unhealthy || n.Ready) {
			why = r.work.future.meant(i)
		}
		if !why.IsYes() {
			r.work.block(why)
			r.wait(i, reason, why)
			continue
		}
		if reason == Unhealthy && r.work.reboots(i) {
			continue
		}
		step := plan.Command{Reason: reason}
		pool, _ := r.work.snap.PoolByName(n.Pool)
		switch {
		case pool != nil && pool.Static && reason != Interrupted:
			if step, why = r.work.templateReplacement(n, pool, reason); !why.IsYes() {
				r.work.block(why)
				continue
			}
		case len(n.Reschedulable) > 0:
			if r.probes == 0 {
				r.wait(i, reason, verdict.Verdict{})
				continue // a later decision will come to it
			}
			r.probes--
			if step, why = r.replacementOf(i, reason); !why.IsYes() {
				step, why = r.terminateFirst(i, reason, why)
			}
			if !why.IsYes() {
				r.work.block(why)
				r.wait(i, reason, why)
				continue
			}
		}
		r.work.begin([]int{i}, step)
	}
}

// wait says that a node is going to be replaced later. An unhealthy node gets no soft taint: it may
// heal.
func (r *replacer) wait(i int, reason string, why verdict.Verdict) {
	if reason != Unhealthy {
		r.taints.wait(i, reason, why)
	}
}

// irreplaceable returns why a node is not replaced now, as far as that is known without working out
// its replacement.
func (r *replacer) irreplaceable(n *cluster.Node, reason string) verdict.Verdict {
	if r.work.urgent(n, reason) {
		return r.work.unmovable(n)
	}
	if why := Paused(r.work.snap, n, reason); !why.IsYes() {
		return why
	}
	if why := r.work.fixed(n, reason); !why.IsYes() {
		return why
	}
	may := func() verdict.Verdict { return r.work.blocked(n, true) }
	if reason == Unhealthy {
		may = func() verdict.Verdict { return r.work.unrepairableNow(n) }
	}
	if why := may(); !why.IsYes() {
		return why
	}
	if r.work.ledger.Left(n.Pool, reason) == 0 && (reason != Unhealthy || n.Initialized) {
		r.work.eligible[reason]++
		return r.work.exhausted(n, reason)
	}
	if len(n.Reschedulable) == 0 {
		return verdict.Verdict{}
	}
	if why := r.work.replaceable(n); !why.IsYes() {
		return why
	}
	return r.work.scope.coolingDown[n.Name]
}

// replacementOf returns the command that replaces one node: the target nodes of its pods, and launches
// for the pods that no running node has room for. Nodes that will be replaced soon themselves take pods
// only if there is no other way. If the node before had no replacement at all, that case is tried
// first: often no node has one, because a pool is at its limits.
func (r *replacer) replacementOf(i int, reason string) (step plan.Command, why verdict.Verdict) {
	snap := r.work.future.ahead().without([]int{i})
	find := func(snap *cluster.Snapshot) (plan.Command, verdict.Verdict) {
		return r.stepOf(i, reason, r.work.decidePods(snap))
	}
	var other *plan.Command
	if r.noneFound {
		if step, why = find(snap); !why.IsYes() {
			return step, why
		}
		r.noneFound, other = false, &step
	}
	best, why := find(closed(snap, r.work.goesSoon))
	switch {
	case why.IsYes():
		return best, why
	case other != nil:
		return *other, verdict.Verdict{}
	}
	step, why = find(snap)
	r.noneFound = !why.IsYes()
	return step, why
}

// stepOf makes the command that replaces a node out of the plan for its pods.
func (r *replacer) stepOf(i int, reason string, p plan.Plan) (plan.Command, verdict.Verdict) {
	n := &r.work.snap.Nodes[i]
	reschedulable, chunk := make(map[cluster.PodRef]bool, len(n.Reschedulable)), map[cluster.PodRef]bool{}
	for r := range n.Reschedulable {
		reschedulable[n.Reschedulable[r].PodRef] = true
		chunk[n.Reschedulable[r].PodRef] = n.Reschedulable[r].Buffer != ""
	}
	no := func(format string, args ...any) (plan.Command, verdict.Verdict) {
		return plan.Command{}, verdict.Of(verdict.NoReplacement, n.Name, format, args...)
	}
	for _, r := range p.Refusals {
		if reschedulable[r.Pod] && !chunk[r.Pod] {
			return no("pod %s would have nowhere to go: %s", r.Pod, beside(r.Why))
		}
	}
	step := plan.Command{Reason: reason}
	for _, m := range p.Assignments {
		if !reschedulable[m.Pod] || chunk[m.Pod] {
			continue
		}
		if to := &r.work.future.over.snap.Nodes[r.work.future.over.at[m.Node]]; !to.Initialized || !to.Ready {
			return no("pod %s would go to %s, which is not ready yet", m.Pod, m.Node)
		}
		step.Moves = append(step.Moves, m)
	}
	for _, l := range p.Launches {
		l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(ref cluster.PodRef) bool { return !reschedulable[ref] })
		if len(l.Pods) > 0 {
			step.Launch = append(step.Launch, l)
		}
	}
	return step, verdict.Verdict{}
}
