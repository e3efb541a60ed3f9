package pack

import "github.com/dovetail-sh/dovetail/internal/core/topology"

// vain is what Buy found nothing for, and at how much at most. Of two with the same place the later
// is kept.
type vain [4096]struct {
	sum   topology.Sum
	limit float64
}

// Remember has Buy remember what it finds nothing for, and not look again; or no longer. That
// saves much where little is found, for then windows of the same machines come again from round to
// round and from try to try; elsewhere they differ.
func (s *Session) Remember(yes bool) {
	switch {
	case !yes:
		s.vain = nil
	case s.vain == nil:
		s.vain = new(vain)
	}
}

// covers tells whether nothing was found for as much.
func (v *vain) covers(sum topology.Sum, limit float64) bool {
	e := &v[sum%topology.Sum(len(v))]
	return e.sum == sum && e.limit >= limit
}

func (v *vain) add(sum topology.Sum, limit float64) {
	e := &v[sum%topology.Sum(len(v))]
	if e.sum != sum || e.limit < limit {
		e.sum, e.limit = sum, limit
	}
}

// sumOfLoose returns a sum of what is loose, as gathered, and of what may be bought for it now: of what rules
// between pods count, and of what pools' limits leave.
func (s *Session) sumOfLoose() (sum topology.Sum) {
	for _, c := range s.fills.some {
		sum = sum.Add(uint64(c)<<32 | uint64(s.loose[c]))
		if s.fills.keyed[c] {
			sum = s.ledger.Sum(int(c), sum)
		}
	}
	for _, p := range s.model.pools {
		if len(p.pool.Limits) == 0 {
			continue
		}
		sum = sum.Add(uint64(p.nodesLeft))
		for _, left := range p.left {
			sum = sum.Add(uint64(left))
		}
	}
	return sum
}
