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
	answers   map[topology.Sum]*many // of bestOfUnplaced, by sumOfUnplaced
	areas     []area                 // nil: they are not known yet
}

// newLauncher returns the launcher of a session.
func newLauncher(inv *Inventory, nodes *Nodes, pods *Rescheduler) *Launcher {
	return &Launcher{inv: inv, nodes: nodes, pods: pods, fills: newFiller(inv, nodes), estimates: newEstimates(inv.offerings)}
}

// area is bins that are alike to all rules between pods, hostnames aside, and their domains.
type area struct {
	place topology.Place
	bins  []uint64
}

// many is an answer of core/cover for unplaced pods, and the session's class of each class of its
// problem.
type many struct {
	cover.Solution
	classes []int32
}

// gather lists the classes with unplaced pods, and returns what these pods are worth.
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

// Remember turns the negative cache of LaunchFor on or off. It saves much where a search finds
// little, for then the same sets of nodes are tried again and again.
func (s *Launcher) Remember(yes bool) {
	switch {
	case !yes:
		s.negative = nil
	case s.negative == nil:
		s.negative = new(negativeCache)
	}
}

// sumOfUnplaced returns a checksum of the unplaced pods, as gathered, and of all that decides what
// may be launched for them: the topology counts that concern them, and what limits leave.
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
	for _, name := range s.inv.supplies {
		sum = sum.Add(uint64(s.inv.model.Supplies[name]))
	}
	return sum
}
