package consolidate

import "github.com/dovetail-sh/dovetail/internal/core/repack"

// draft is a command while it is put together.
type draft struct {
	remove   []int32
	launches []purchase
	moves    []repack.Move
	saving   float64
	weight   float64
}

type purchase struct {
	bin  int32
	pods []repack.Share
}

// halves cuts drafts of several nodes in two.
func halves(drafts []*draft) []*draft {
	var out []*draft
	for _, d := range drafts {
		if n := len(d.remove); n > 1 {
			out = append(out, &draft{remove: d.remove[:n/2]}, &draft{remove: d.remove[n/2:]})
		}
	}
	return out
}

// launched is a launch of a step, both by their index, and what it may cost.
type launched struct {
	step, at int
	priceMax float64
	typesMin int
}

// groups joins changes that depend on each other: one removes a node that another launched or put
// pods on. Each group becomes one command.
type groups struct {
	parent  []int32   // by change
	removed [][]int32 // by change that is its own parent: nodes of the snapshot
}

// forget separates all changes again.
func (g *groups) forget() {
	g.parent, g.removed = g.parent[:0], g.removed[:0]
}

func (g *groups) find(change int32) int32 {
	for int(change) >= len(g.parent) {
		g.parent, g.removed = append(g.parent, int32(len(g.parent))), append(g.removed, nil)
	}
	for g.parent[change] != change {
		g.parent[change] = g.parent[g.parent[change]]
		change = g.parent[change]
	}
	return change
}
