package topology

import "github.com/dovetail-sh/dovetail/internal/core/effort"

// Sum is a hash of numbers. The same numbers in the same order have the same Sum; others have
// it by chance, once in 2⁶⁴.
type Sum uint64

// Add returns the Sum of the numbers so far and one more.
func (s Sum) Add(x uint64) Sum {
	x ^= uint64(s) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return Sum(x ^ x>>31)
}

// Sum adds to a sum all counts that the rules of a class ask about where nodes could be
// launched. Counts by hostname are left out: a new node has a hostname of its own.
func (l *Ledger) Sum(class int, sum Sum) Sum {
	r := &l.rules[class]
	for i := range r.spread {
		sum = l.groups[r.spread[i].group].sum(sum, l.meter)
	}
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			sum = l.groups[u.group].sum(sum, l.meter)
		}
	}
	for _, uses := range [][]use{r.repelling, r.repelled} {
		for _, u := range uses {
			sum = l.groups[u.group].sum(sum, l.meter)
		}
	}
	return sum
}

// sum adds the group's counts to a sum.
func (g *group) sum(sum Sum, meter *effort.Meter) Sum {
	meter.Spend(1 + len(g.counts)/numbersUnit)
	sum = sum.Add(uint64(g.total))
	if g.onHosts {
		return sum
	}
	for d := range g.counts {
		n := uint64(g.most(int32(d))) << 1
		if d < len(g.present) && g.present[d] {
			n |= 1
		}
		sum = sum.Add(n)
	}
	return sum
}
