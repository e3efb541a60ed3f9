package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// shunsMax is how many machines are shunned, or are so no longer, in one look: each is a
// write.
const shunsMax = 100

// Spare returns the snapshot with machines closed that are shunned; the same if there are
// none.
func Spare(snap *cluster.Snapshot) *cluster.Snapshot {
	shunned := func(n *cluster.Node) bool { return n.Shunned }
	for i := range snap.Nodes {
		if shunned(&snap.Nodes[i]) {
			return closed(snap, shunned)
		}
	}
	return snap
}

// shun keeps pods away, softly, from machines that a step of the plan removes which is not
// begun yet: whoever is evicted before would only be evicted again there.
func (w *work) shun(steps []plan.Step) {
	later := map[string]bool{}
	for i := range steps {
		for _, r := range steps[i].Remove {
			if h := w.over.at[r.Node]; !w.taken[h] {
				later[r.Node] = true
				if !w.snap.Nodes[h].Shunned && len(w.out.Shuns) < shunsMax {
					w.out.Shuns = append(w.out.Shuns, r.Node)
				}
			}
		}
	}
	if !w.opts.DrainOnly { // else it is not the whole plan
		w.unshun(func(n *cluster.Node) bool { return !later[n.Name] && n.Planned == 0 })
	}
}

// unshun has pods come again to machines that stay. Those that are on their way out
// already are left as they are.
func (w *work) unshun(stays func(*cluster.Node) bool) {
	for i := range w.snap.Nodes {
		n := &w.snap.Nodes[i]
		if n.Shunned && !n.Leaving && !w.taken[i] && stays(n) && len(w.out.Unshuns) < shunsMax {
			w.out.Unshuns = append(w.out.Unshuns, n.Name)
		}
	}
}
