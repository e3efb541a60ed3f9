package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/pack/disperse"
	"github.com/dovetail-sh/dovetail/internal/core/pack/launch"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// resilient returns a solver whose workloads lose fewer pods with one node, and whose plan costs no more
// than the premium on top of this one's. start begins a solve anew.
//
// First pods are exchanged between the nodes of this plan, which costs nothing. Where a node still has
// more pods of a workload than it should, nodes are launched anew with a limit to that, a strict one
// first. At last the zones of the nodes are chosen.
func (s *solver) resilient(start func() *solver) *solver {
	if s.state.CountOnPlanned() == 0 {
		return s
	}
	board, base := disperse.NewBoard(s.state), s.cost()
	before, spot := board.Loss()
	most := base.hourly + s.state.Model.Options.ResiliencePremium*(base.hourly+(disperse.Weight(true)-1)*spot) + priceSlack
	best := s
	board.Balance()
	for _, share := range disperse.Shares() {
		if !board.IsOver() {
			break
		}
		v := start()
		board.Cap(v.state.Classes, share)
		v.state.PlaceOnExisting()
		launch.Launch(v.state)
		v.firstFit()
		v.finish()
		spread := disperse.NewBoard(v.state)
		spread.Balance()
		if c := v.cost(); c.refused <= base.refused && c.unknown <= base.unknown && c.hourly <= most {
			best, board = v, spread
			break
		}
	}
	board.Zones(most - best.cost().hourly)
	for _, b := range best.state.Planned {
		if b.Refusal.IsYes() {
			b.FixDomains()
		}
	}
	return best.noteResilience(board, before, base.hourly)
}

// noteResilience notes for the plan what spreading changes.
func (s *solver) noteResilience(board *disperse.Board, before plan.Loss, cheapest float64) *solver {
	s.resilience = plan.Resilience{Before: before, CheapestHourly: cheapest, SpreadHourly: s.cost().hourly}
	s.resilience.After, _ = board.Loss()
	return s
}
