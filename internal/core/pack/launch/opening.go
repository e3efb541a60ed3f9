package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// opening is a node to be launched for a pattern. It becomes a launch with its first pod.
type opening struct {
	bin      *model.PlannedNode
	offering int   // what the pattern is for
	index    int32 // among the launches; -1: not yet
	taken    bool  // its types are those that hold its pods, and the pool's limits count it
}

// affordable reports whether the pool's limits, of which others have taken since the bin was
// opened, still allow it.
func (b *opening) affordable() bool {
	if b.taken {
		return true
	}
	b.bin.Types = slices.DeleteFunc(b.bin.Types, func(t int32) bool { return !b.bin.Pool.Types[t].Amounts.Fits(b.bin.Pool.Left) })
	return b.bin.Pool.NodesLeft > 0
}

// accept narrows the bin to what a class allows, if that leaves the offering.
func (b *opening) accept(m *member) bool {
	in := &m.st.Admitted[b.bin.PoolIndex]
	for i := range in.Terms {
		t := &in.Terms[i]
		if !t.Offerings.Has(b.offering) {
			continue
		}
		if _, conflict := b.bin.Open.Conflict(t.Open); conflict {
			return false
		}
		b.bin.Offerings.And(t.Offerings)
		b.bin.Require(t)
		return true
	}
	return false
}
