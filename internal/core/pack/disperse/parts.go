package disperse

import (
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

// Try is one way to launch nodes anew.
type Try struct {
	Share   int32 // a node has one in so many pods of a workload at most
	InParts bool  // workloads are launched in parts, each on other spot offerings
}

// Tries returns the ways to launch nodes anew that are worth a try, the best first.
func (x *Board) Tries() (tries []Try) {
	if loss, _ := x.Loss(); loss.SpotOffering > domainPercent/100.0 {
		tries = append(tries, Try{nodeShare, true})
	}
	if x.IsOver() {
		tries = append(tries, Try{Share: nodeShare}, Try{Share: 4}, Try{Share: 2})
	}
	return tries
}

// IsBetterOnSpot reports whether less of a workload is on one spot offering than with the nodes of the other board.
func (x *Board) IsBetterOnSpot(other *Board) bool {
	now, _ := x.Loss()
	before, _ := other.Loss()
	return now.SpotOffering < before.SpotOffering
}

// part returns how many pods of a workload are launched at once in parts; 0: all.
func (x *Board) part(c int) int {
	if x.size[c] < ReportedMin {
		return 0
	}
	return int(x.size[c] * domainPercent / 100)
}

// HoldBack leaves each class the pods of its first part, and returns the others, by class.
func (x *Board) HoldBack(classes []model.PodClass) (held [][]int32) {
	held = make([][]int32, len(classes))
	for c := range classes {
		if n := x.part(c); n > 0 && n < len(classes[c].Pods) {
			held[c], classes[c].Pods = classes[c].Pods[n:], classes[c].Pods[:n:n]
		}
	}
	return held
}

// Release gives each class the pods of its next part back. It reports whether there were any.
func (x *Board) Release(classes []model.PodClass, held [][]int32) (any bool) {
	for c := range held {
		n := min(x.part(c), len(held[c]))
		classes[c].Pods = append(classes[c].Pods, held[c][:n]...)
		held[c] = held[c][n:]
		any = any || n > 0
	}
	return any
}

// CloseSpotOfferings makes the spot offerings unavailable that have half a part of a workload by now.
func (x *Board) CloseSpotOfferings(s *place.State) {
	counts, closed := map[classDomain]int{}, map[domain]bool{}
	for _, n := range NewBoard(s).nodes {
		if n.offering < 0 || n.plan.Pool.Offerings[n.offering].CapacityType != label.Spot {
			continue
		}
		spot := domain{n.plan.Pool.Offerings[n.offering].Zone, n.plan.Pool.Types[n.typ].Name}
		for _, h := range n.held {
			at, part := classDomain{h.class, spot}, x.part(int(h.class))
			counts[at] += int(h.n)
			closed[spot] = closed[spot] || part > 0 && 2*counts[at] > part
		}
	}
	for _, p := range s.Model.Pools {
		for a, o := range p.Offerings {
			if o.CapacityType == label.Spot && closed[domain{o.Zone, p.Types[p.TypeOf[a]].Name}] {
				p.Launchable.Clear(a)
			}
		}
	}
}
