package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// opening is a node of an answer. It becomes a planned node with its first pod.
type opening struct {
	node     *model.PlannedNode
	offering int   // of the pattern
	index    int32 // among the planned nodes; -1: it has no pod yet
	taken    bool  // its types are those that hold its pods, and the pool's limits count it
}

// affordable reports whether the pool's limits still allow the node. Other nodes may have taken
// of them since it was opened.
func (o *opening) affordable() bool {
	if o.taken {
		return true
	}
	o.node.Types = slices.DeleteFunc(o.node.Types, func(t int32) bool { return !o.node.Pool.Types[t].Amounts.Fits(o.node.Pool.Left) })
	return o.node.Pool.NodesLeft > 0
}

// accept narrows the node to what a class allows. It does nothing and returns false if that
// would exclude the offering.
func (o *opening) accept(m *member) bool {
	in := &m.st.Admitted[o.node.PoolIndex]
	for i := range in.Terms {
		t := &in.Terms[i]
		if !t.Offerings.Has(o.offering) {
			continue
		}
		if _, conflict := o.node.Open.Conflict(t.Open); conflict {
			return false
		}
		o.node.Offerings.And(t.Offerings)
		o.node.Require(t)
		return true
	}
	return false
}

// holds reports whether the offering's own type has room for one more pod of a class. Which
// other types have is found out by take.
func (o *opening) holds(c *model.PodClass) bool {
	return quantity.Times(o.node.Pool.Types[o.node.Pool.TypeOf[o.offering]].Free, o.node.Used, c.Need, 1) > 0
}
