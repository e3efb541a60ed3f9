package pack

import (
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack/disperse"
	"github.com/dovetail-sh/dovetail/internal/core/pack/launch"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// resilient returns a solver whose workloads lose fewer pods with one node, as dispersed does, and with pods that may not
// be evicted on few existing nodes.
func (s *solver) resilient(begin func(*effort.Meter) *solver, meter *effort.Meter) *solver {
	best := s.dispersed(begin, meter)
	if best.withheld == 0 { // chunks of capacity buffers wait for the room that there is
		before, after := disperse.GatherOnExisting(best.state)
		best.resilience.HoldingBefore += before
		best.resilience.HoldingAfter += after
	}
	return best
}

// dispersed returns a solver whose workloads lose fewer pods with one node, and whose plan costs no more
// than the premium on top of this one's. begin begins a solve anew, metered by its argument.
//
// First pods are exchanged between the nodes of this plan, which costs nothing. Where a node still has
// more pods of a workload than it should, nodes are launched anew with a limit to that, a strict one
// first, unless chunks of capacity buffers wait. Then the zones and offerings of the nodes are chosen, and pods that may not be
// evicted are gathered on few of them. It takes what effort is left, and never too much.
func (s *solver) dispersed(begin func(*effort.Meter) *solver, meter *effort.Meter) *solver {
	all := effortFor(s.state.Model.Options, s.state.Model.Snapshot)
	if s.state.CountOnPlanned() == 0 || meter.Left() < all/spreadLeast {
		return s
	}
	board, base := disperse.NewBoard(s.state), s.cost()
	before, spot := board.Loss()
	holding := board.Holding()
	most := base.hourly + s.state.Model.Options.ResiliencePremium*(base.hourly+(disperse.Weight(true)-1)*spot) + priceSlack
	best := s
	board.Balance()
	for _, try := range board.Tries() {
		if s.withheld > 0 || meter.Left() < all/spreadLeast {
			break
		}
		own := effort.New(meter.Left() / 2)
		var v *solver
		var spread *disperse.Board
		ended := own.Run(func() { v, spread = limited(begin(own), board, try) })
		meter.Spend(int(own.Spent()))
		if !ended || own.Left() < all/spreadLeast { // what follows is metered by it, too
			continue
		}
		if c := v.cost(); c.refused <= base.refused && c.unknown <= base.unknown && c.hourly <= most && (!try.InParts || spread.IsBetterOnSpot(board)) {
			best, board = v, spread
			break
		}
	}
	board.ChooseOfferings(most - best.cost().hourly)
	board.Gather()
	for _, b := range best.state.Planned {
		if b.Refusal.IsYes() {
			b.FixDomains()
		}
	}
	best.resilience = plan.Resilience{Before: before, HoldingBefore: holding, HoldingAfter: board.Holding(), CheapestHourly: base.hourly, SpreadHourly: best.cost().hourly}
	best.resilience.After, _ = board.Loss()
	return best
}

// spreadLeast is which part of a decision's effort, one in so many, must be left for workloads to be spread.
const spreadLeast = 16

// limited solves with a limit on the pods of each workload per new node, one in so many, and in parts if try says so.
func limited(v *solver, board *disperse.Board, try disperse.Try) (*solver, *disperse.Board) {
	board.Cap(v.state.Classes, try.Share)
	v.state.PlaceOnExisting()
	var later []*model.PlannedNode
	if try.InParts {
		later = v.launchInParts(board)
	} else {
		launch.Launch(v.state)
	}
	v.firstFit()
	v.finish()
	for _, b := range later {
		if b.Refusal.IsYes() && len(b.Types) > 0 && len(b.Minimum) == 0 {
			b.PinCheapest()
		}
	}
	spread := disperse.NewBoard(v.state)
	spread.Balance()
	return v, spread
}

// launchInParts launches nodes for parts of the workloads, one after the other, and none of them as one of the spot
// offerings that earlier parts are on. It returns the nodes of all parts but the first.
func (s *solver) launchInParts(board *disperse.Board) (later []*model.PlannedNode) {
	held, pools := board.HoldBack(s.state.Classes), s.state.Model.Pools
	launchable := make([]model.Bitset, len(pools))
	for i, p := range pools {
		launchable[i] = p.Launchable
		p.Launchable = p.Launchable.Clone()
	}
	for first := 0; ; first = len(s.state.Planned) {
		launch.Launch(s.state)
		if first > 0 {
			later = append(later, s.state.Planned[first:]...)
		}
		if !board.Release(s.state.Classes, held) {
			break
		}
		board.CloseSpotOfferings(s.state)
	}
	for i, p := range pools {
		p.Launchable = launchable[i]
	}
	return later
}
