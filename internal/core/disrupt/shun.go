package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// PreferOthers returns the snapshot with nodes closed that are shunned; the same if there are
// none.
func PreferOthers(snap *cluster.Snapshot) *cluster.Snapshot {
	shunned := func(n *cluster.Node) bool { return n.SoftTaint }
	for i := range snap.Nodes {
		if shunned(&snap.Nodes[i]) {
			return closed(snap, shunned)
		}
	}
	return snap
}

// taintWaitingSoftly keeps pods away, softly, from a node that will be replaced when it is its
// turn: the pods of those before it would only be evicted again there. why says what it
// waits for; one that may not go is none. One that was tried in vain is let be as it is, so
// that the taint does not come and go with each try.
func (w *work) taintWaitingSoftly(i int, reason string, why verdict.Verdict) {
	n := &w.snap.Nodes[i]
	_, rests := w.scope.coolingDown[n.Name]
	w.waits[i] = why.Reason != verdict.NodeBlocked && w.ledger.Allowed(n.Pool, reason) > 0
	if w.waits[i] && !rests && why.Reason != verdict.NoReplacement {
		w.taintOneSoftly(i)
	}
}

func (w *work) taintOneSoftly(i int) {
	if n := &w.snap.Nodes[i]; !n.SoftTaint && len(w.out.SoftTaints) < taintsMax && !slices.Contains(w.out.SoftTaints, n.Name) {
		w.out.SoftTaints = append(w.out.SoftTaints, n.Name)
	}
}

// taintSoftly keeps pods away, softly, from nodes that a step of the plan removes which is not
// begun yet: whoever is evicted before would only be evicted again there.
func (w *work) taintSoftly(steps []plan.Command) {
	later := map[string]bool{}
	for i := range steps {
		for _, r := range steps[i].Remove {
			if h := w.over.at[r.Node]; !w.taken[h] {
				later[r.Node] = true
				w.taintOneSoftly(h)
			}
		}
	}
	if w.scope.search == DrainSearch { // it is not the whole plan
		return
	}
	if w.isOverSoon(len(later)) {
		w.reserve(later)
	}
	w.unshun(func(n *cluster.Node) bool { return !later[n.Name] })
}

// isOverSoon reports whether budgets let so many nodes go in a few rounds, if there are any.
func (w *work) isOverSoon(later int) bool {
	most := 0
	for i := range w.snap.Pools {
		if p := w.snap.Pools[i].Name; w.consolidates(p) {
			most += w.ledger.Most(p, Underutilized)
		}
	}
	return later > 0 && later <= reserveRounds*most
}

// reserve keeps pods away, softly, from nodes that stay and need not take pods yet. Only when
// nothing is under way are there more of them than before, and no more than go later: each is a
// write.
func (w *work) reserve(later map[string]bool) {
	most := len(later)
	for _, i := range w.reserves(later) {
		n := &w.snap.Nodes[i]
		if n.SoftTaint {
			w.waits[i] = true
		} else if len(w.commands) == 0 && most > 0 {
			w.taintOneSoftly(i)
			most--
		}
	}
}

// unshun has pods come again to nodes that stay. Those that are on their way out
// already are left as they are.
func (w *work) unshun(stays func(*cluster.Node) bool) {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.SoftTaint && !n.Deleting && n.Planned == 0 && !w.taken[i] && !w.waits[i] && stays(n) && len(w.out.SoftTaintsOver) < taintsMax {
			w.out.SoftTaintsOver = append(w.out.SoftTaintsOver, n.Name)
		}
	}
}
