package topology

// Sum tells what was counted from what was not: two are the same for the same numbers in the same
// order, and by chance once in 2⁶⁴.
type Sum uint64

// Add returns the sum with one more number.
func (s Sum) Add(x uint64) Sum {
	x ^= uint64(s) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return Sum(x ^ x>>31)
}

// Sum adds to a sum all that the rules of a class ask about where new machines could be, which
// have hostnames of their own.
func (l *Ledger) Sum(class int, sum Sum) Sum {
	r := &l.rules[class]
	for i := range r.spread {
		sum = l.sumOf(r.spread[i].group, sum)
	}
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			sum = l.sumOf(u.group, sum)
		}
	}
	for _, uses := range [][]use{r.repelling, r.repelled} {
		for _, u := range uses {
			sum = l.sumOf(u.group, sum)
		}
	}
	return sum
}

func (l *Ledger) sumOf(group int, sum Sum) Sum {
	g := &l.groups[group]
	l.meter.Spend(1 + len(g.counts)/numbersUnit)
	sum = sum.Add(uint64(g.total))
	if l.isHostname(g.key) {
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
