package repack

import (
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Launcher launches nodes for unplaced pods.
type Launcher struct {
	inv       *Inventory
	nodes     *Nodes
	pods      *Rescheduler
	some      []int32 // the classes that may be unplaced, in the order of size
	fills     filler
	best      []Share // the content of the densest bin
	total     quantity.Vector
	estimates estimates
	negative  *negativeCache         // nil: it is not remembered
	answers   map[topology.Sum]*many // of LaunchMany, by sumOfUnplaced
	areas     []area                 // nil: they are not known yet
}

func newLauncher(inv *Inventory, nodes *Nodes, pods *Rescheduler) *Launcher {
	return &Launcher{inv: inv, nodes: nodes, pods: pods, fills: newFiller(inv, nodes), estimates: newEstimates(inv.offerings)}
}

// area is where bins are, as far as rules between pods can tell them apart, hostnames aside.
type area struct {
	place topology.Place
	bins  []uint64
}

// many is what would be launched for pods at once, with the session's class of each of its classes.
type many struct {
	cover.Solution
	classes []int32
}

// gather lists the classes that are unplaced, and returns what their pods are worth.
func (s *Launcher) gather() (worth float64) {
	s.some = s.some[:0]
	for _, c := range s.inv.size {
		if s.nodes.unplaced[c] > 0 {
			s.some = append(s.some, c)
			worth += float64(s.nodes.unplaced[c]) * s.inv.worth[c]
		}
	}
	return worth
}

// Remember has LaunchFor remember what it finds nothing for, and not look again; or no longer. That
// saves much where little is found, for then windows of the same nodes come again from round to
// round and from try to try; elsewhere they differ.
func (s *Launcher) Remember(yes bool) {
	switch {
	case !yes:
		s.negative = nil
	case s.negative == nil:
		s.negative = new(negativeCache)
	}
}

// sumOfUnplaced returns a sum of what is unplaced, as gathered, and of what may be launched for it now: of what rules
// between pods count, and of what pools' limits leave.
func (s *Launcher) sumOfUnplaced() (sum topology.Sum) {
	for _, c := range s.some {
		sum = sum.Add(uint64(c)<<32 | uint64(s.nodes.unplaced[c]))
		if s.inv.keyed[c] {
			sum = s.inv.ledger.Sum(int(c), sum)
		}
	}
	for _, p := range s.inv.model.Pools {
		if len(p.NodePool.Limits) == 0 {
			continue
		}
		sum = sum.Add(uint64(p.NodesLeft))
		for _, left := range p.Left {
			sum = sum.Add(uint64(left))
		}
	}
	return sum
}
