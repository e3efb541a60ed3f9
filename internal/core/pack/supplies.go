package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// supply has each planned node, in the order of their launch, take what its cheapest offering draws on
// supplies. A later node is left with the offerings for which there is still enough. If there are none,
// its pods are refused until there is, unless they have a place elsewhere: supply reports whether such
// pods are to be placed anew.
func (s *solver) supply() (anew bool) {
	left := s.state.Model.SuppliesLeft()
	if left == nil {
		return false
	}
	short := map[int32]verdict.Verdict{}
	for i, b := range s.state.Planned {
		if !b.Refusal.IsYes() {
			continue
		}
		if why := left.Take(b); !why.IsYes() {
			short[int32(i)] = why
			s.cancel(b, why)
		}
	}
	if len(short) == 0 {
		return false
	}
	of := s.state.ClassOf()
	for p, at := range s.state.Assignments {
		if why, is := short[at.Index]; is && at.Kind == model.OnPlanned {
			cl := &s.state.Classes[of[s.state.Model.Snapshot.Pending[p].Constraints]]
			s.state.Remove(cl, int32(p))
			cl.Pods = append(cl.Pods, int32(p))
			s.refused[p] = why
		}
	}
	before := make([]model.Bitset, len(s.state.Model.Pools))
	for at, p := range s.state.Model.Pools {
		before[at], p.Launchable = p.Launchable, left.Covered()[at]
	}
	s.state.PlaceAll()
	for at, p := range s.state.Model.Pools {
		p.Launchable = before[at]
	}
	return true
}

// cancel has a planned node not launched, and gives its limits back.
func (s *solver) cancel(b *model.PlannedNode, why verdict.Verdict) {
	b.Refusal = why
	if b.Pool.IsLimited() {
		b.HoldLimits(make(quantity.Vector, len(b.LimitsHeld)))
		b.Pool.NodesLeft++
	}
}
