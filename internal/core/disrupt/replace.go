package disrupt

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// drifted proposes to replace nodes that are not what their pool would launch now:
// those without pods first, then the longest drifted.
func (w *work) drifted() {
	w.replace(Drifted, func(n *cluster.Node) bool { return n.Drifted != "" }, func(a, b *cluster.Node) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Reschedulable)), min(1, len(b.Reschedulable))), a.DriftedSince.Compare(b.DriftedSince))
	})
}

// interrupted proposes to replace nodes that the cloud takes away. When there is little
// time left, neither budgets nor pods are asked: the node goes anyway, and all that can
// be chosen is whether its pods find another.
func (w *work) interrupted() {
	w.replace(Interrupted, func(n *cluster.Node) bool { return n.Reclaimed != "" && !w.snap.At.Before(due(n)) }, func(a, b *cluster.Node) int {
		return a.Expires.Compare(b.Expires)
	})
}

// urgent reports whether a node goes so soon, because the cloud takes it, that nobody is
// asked.
func (w *work) urgent(n *cluster.Node, reason string) bool {
	return reason == Interrupted && n.Expires.Sub(w.snap.At) <= expiryWindowMin
}

// expired proposes to replace nodes before their time is over, so that their pods
// find others ready. At the deadline itself they are removed without asking.
func (w *work) expired() {
	w.replace(Expired, func(n *cluster.Node) bool {
		return n.Reclaimed == "" && !n.Expires.IsZero() && !w.snap.At.Before(due(n))
	}, func(a, b *cluster.Node) int {
		return a.Expires.Compare(b.Expires)
	})
}

// due returns when a node is to be replaced because its end is near. Nodes with the
// same end have it at different times in the first half of the window; the second is for
// budgets and failures.
func due(n *cluster.Node) time.Time {
	life := n.Expires.Sub(n.Created)
	window := min(max(life/10, expiryWindowMin), expiryWindowMax)
	if n.Reclaimed == "" {
		window = min(window, life/2)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(n.Claim))
	return n.Expires.Add(-window + time.Duration(float64(window)/2*float64(h.Sum32())/math.MaxUint32))
}

// replace proposes a step for each node that is wanted gone, in order. One that has no
// replacement now is no reason not to look at the next.
func (w *work) replace(reason string, wanted func(*cluster.Node) bool, order func(a, b *cluster.Node) int) {
	var candidates []int
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if !w.taken[i] && !n.Deleting && n.Claim != "" && wanted(n) {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return order(&w.snap.Nodes[a], &w.snap.Nodes[b]) })
	for _, i := range candidates {
		n := &w.snap.Nodes[i]
		why := w.irreplaceable(n, reason)
		if why.IsYes() && !w.urgent(n, reason) {
			why = w.meant(i)
		}
		if !why.IsYes() {
			w.block(why)
			w.taintWaitingSoftly(i, reason, why)
			continue
		}
		step := plan.Command{Reason: reason}
		pool, _ := w.snap.PoolByName(n.Pool)
		switch {
		case pool != nil && pool.Static && reason != Interrupted:
			if step, why = w.templateReplacement(n, pool, reason); !why.IsYes() {
				w.block(why)
				continue
			}
		case len(n.Reschedulable) > 0:
			if w.probes == 0 {
				w.taintWaitingSoftly(i, reason, verdict.Verdict{})
				continue // another look will come to it
			}
			w.probes--
			if step, why = w.replacementOf(i, reason); !why.IsYes() {
				w.block(why)
				w.taintWaitingSoftly(i, reason, why)
				continue
			}
		}
		w.begin([]int{i}, step)
	}
}

// irreplaceable returns why a node is not replaced now, as far as that can be known
// without working out by what.
func (w *work) irreplaceable(n *cluster.Node, reason string) verdict.Verdict {
	if w.urgent(n, reason) {
		return w.unmovable(n)
	}
	if why := w.fixed(n, reason); !why.IsYes() {
		return why
	}
	if why := w.blocked(n, true); !why.IsYes() {
		return why
	}
	if w.ledger.Left(n.Pool, reason) == 0 {
		w.eligible[reason]++
		return w.exhausted(n, reason)
	}
	if len(n.Reschedulable) == 0 {
		return verdict.Verdict{}
	}
	if why := w.replaceable(n); !why.IsYes() {
		return why
	}
	return w.scope.coolingDown[n.Name]
}

// replaceable says whether something may be bought for the pods of a node, which it may
// not while replacements of its pool fail.
func (w *work) replaceable(n *cluster.Node) verdict.Verdict {
	until := w.scope.paused[n.Pool]
	if !until.After(w.snap.At) {
		return verdict.Verdict{}
	}
	return verdict.Of(verdict.PoolPaused, n.Name, "replacements of pool %s failed, the next try is not before %s", n.Pool, until.UTC().Format(time.TimeOnly))
}

// replacementOf returns the step that replaces one node: where its pods go, and what is
// bought for those that no node that runs has room for. They do not go to nodes
// that are themselves to be replaced soon, unless there is no other way. Where the node
// before had no way at all, that is asked first: often none has, for a pool is at its limits.
func (w *work) replacementOf(i int, reason string) (step plan.Command, why verdict.Verdict) {
	snap := w.ahead().without([]int{i})
	find := func(snap *cluster.Snapshot) (plan.Command, verdict.Verdict) {
		return w.stepOf(i, reason, w.decidePods(snap))
	}
	var other *plan.Command
	if w.noneFound {
		if step, why = find(snap); !why.IsYes() {
			return step, why
		}
		w.noneFound, other = false, &step
	}
	best, why := find(closed(snap, w.goesSoon))
	switch {
	case why.IsYes():
		return best, why
	case other != nil:
		return *other, verdict.Verdict{}
	}
	step, why = find(snap)
	w.noneFound = !why.IsYes()
	return step, why
}

// closed returns the snapshot with some nodes closed to pods.
func closed(snap *cluster.Snapshot, which func(*cluster.Node) bool) *cluster.Snapshot {
	with := *snap
	with.Nodes = slices.Clone(snap.Nodes)
	for i := range with.Nodes {
		if n := &with.Nodes[i]; which(n) {
			n.Taints = append(slices.Clip(n.Taints), cluster.Taint{Key: closingTaint, Effect: cluster.NoSchedule})
		}
	}
	return &with
}

// closingTaint stands for the one that a node gets when it is marked.
const closingTaint = "dovetail.sh/to-be-replaced"

func (w *work) goesSoon(n *cluster.Node) bool {
	return n.Drifted != "" && w.fixed(n, Drifted).IsYes() || n.SoftTaint || !n.Expires.IsZero() && !w.snap.At.Before(due(n))
}

// stepOf reads the step that replaces a node out of the plan for its pods.
func (w *work) stepOf(i int, reason string, p plan.Plan) (plan.Command, verdict.Verdict) {
	n := &w.snap.Nodes[i]
	reschedulable := make(map[cluster.PodRef]bool, len(n.Reschedulable))
	for r := range n.Reschedulable {
		reschedulable[n.Reschedulable[r].PodRef] = true
	}
	no := func(format string, args ...any) (plan.Command, verdict.Verdict) {
		return plan.Command{}, verdict.Of(verdict.NoReplacement, n.Name, format, args...)
	}
	for _, r := range p.Refusals {
		if reschedulable[r.Pod] {
			return no("pod %s would have nowhere to go: %s", r.Pod, beside(r.Why))
		}
	}
	step := plan.Command{Reason: reason}
	for _, m := range p.Assignments {
		if !reschedulable[m.Pod] {
			continue
		}
		if to := &w.over.snap.Nodes[w.over.at[m.Node]]; !to.Initialized || !to.Ready {
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
