package repack

import (
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// negativeCache is what LaunchFor found nothing for, and at how much at most. Of two with the same place the later
// is kept.
type negativeCache [4096]struct {
	sum   topology.Sum
	limit float64
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

// covers reports whether nothing was found for as much.
func (v *negativeCache) covers(sum topology.Sum, limit float64) bool {
	e := &v[sum%topology.Sum(len(v))]
	return e.sum == sum && e.limit >= limit
}

func (v *negativeCache) add(sum topology.Sum, limit float64) {
	e := &v[sum%topology.Sum(len(v))]
	if e.sum != sum || e.limit < limit {
		e.sum, e.limit = sum, limit
	}
}

// sumOfUnplaced returns a sum of what is unplaced, as gathered, and of what may be launched for it now: of what rules
// between pods count, and of what pools' limits leave.
func (s *Launcher) sumOfUnplaced() (sum topology.Sum) {
	for _, c := range s.inv.fills.some {
		sum = sum.Add(uint64(c)<<32 | uint64(s.nodes.unplaced[c]))
		if s.inv.fills.keyed[c] {
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
