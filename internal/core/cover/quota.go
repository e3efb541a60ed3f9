package cover

import (
	"cmp"
	"math"
	"slices"
)

// An ascent also says how many of each kind are cheapest in which bins. With so many items that rounding does not matter, bins
// of each are filled with just those, so that no dimension is full before the others, and little is left.

const (
	// quotaWorth is the least part of its price that a bin filled from quotas is worth. What is left then is packed by value
	// for money.
	quotaWorth = 0.9
	// quotaNeeded is which part of the bins that the scarcest dimension needs another one must need to be kept in balance.
	quotaNeeded = 0.8
	// quotaWork bounds how many items are looked at to fill bins once.
	quotaWork = 60_000_000
	// quotaEven is how much all dimensions count alike in the size of an item, whatever they are worth.
	quotaEven = 0.05
)

// quotas returns for each bin how many items of each kind are to be in such bins. Together they are all items.
func (a *ascent) quotas() [][]Item {
	quotas, ahead := make([][]Item, len(a.t.m.bins)), make([]float64, len(a.t.m.bins))
	var order []int32 // of those in bins, by how much of an item they lack
	for k := range a.t.m.kinds {
		first, last := a.first[k], a.first[k+1]
		sum := 0.0
		for _, n := range a.items[first:last] {
			sum += n
		}
		left, most := a.t.m.kinds[k].count, float64(a.t.m.kinds[k].count)/max(sum, tiny)
		order = order[:0]
		for i := first; i < last; i++ {
			want := a.items[i] * most
			n := min(int(want), left)
			if left -= n; n > 0 {
				quotas[a.bins[i]] = append(quotas[a.bins[i]], Item{Class: int32(k), N: n})
			}
			if ahead[a.bins[i]] -= want - float64(n); want > 0 {
				order = append(order, a.bins[i])
			}
		}
		slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(ahead[x], ahead[y]) })
		if len(order) == 0 { // it costs nothing, or fits nowhere
			order = append(order, a.bins[first:last]...)
		}
		for i := 0; left > 0 && len(order) > 0; i++ {
			b := order[i%len(order)]
			left--
			ahead[b]++
			if q := quotas[b]; len(q) > 0 && q[len(q)-1].Class == int32(k) {
				q[len(q)-1].N++
			} else {
				quotas[b] = append(q, Item{Class: int32(k), N: 1})
			}
		}
	}
	return quotas
}

// packByQuota packs each kind where the ascent has it, and by value for money what does not fill bins there. The tariff must
// be that of the ascent.
func (s *solver) packByQuota(a *ascent) {
	quotas, work := a.quotas(), 0
	for _, quota := range quotas {
		for _, it := range quota {
			work += it.N * len(quota)
		}
	}
	if s.m.rivalry || work > quotaWork {
		return
	}
	g := s.greedy
	for _, balance := range [...]float64{0.7, 1, 1.5} { // how much balance counts against size
		s.trial.reset()
		copy(s.value, s.tariff.value)
		s.valueItems()
		g.everything()
		for b, quota := range quotas {
			s.fillByQuota(int32(b), quota, balance)
		}
		g.prune()
		g.even, g.strict = evenness(1), strictness(0)
		g.cover(&s.trial, s.estimate, inf)
		if s.trial.better(&s.best) {
			s.best.copyFrom(&s.trial)
			s.bestValue = append(s.bestValue[:0], s.value...)
		}
	}
}

// fillByQuota fills as many bins of a kind from its quota as are worth their price, nearly.
func (s *solver) fillByQuota(b int32, quota []Item, balance float64) {
	q, price := newQuotaFiller(s.tariff, b, quota), s.m.bins[b].price
	for {
		items := q.fill(balance)
		value := 0.0
		for _, it := range items {
			value += s.tariff.value[it.Class] * float64(it.N)
		}
		if len(items) == 0 || value < price*quotaWorth {
			return
		}
		for _, it := range items {
			s.greedy.left[it.Class] -= it.N
		}
		s.trial.add(b, 1, items, price)
	}
}

// quotaFiller fills bins of one kind from a quota.
type quotaFiller struct {
	m       *model
	room    []int64
	left    []Item    // of the quota
	part    []float64 // of the bin's room that an item takes, by item of left and dimension
	share   []float64 // of each dimension in what the bin is worth
	isEven  []bool    // whether a dimension is kept in balance
	free    []int64
	used    []float64 // part of the room, by dimension
	taken   []int     // by item of left
	fitting []int     // indexes in left of what may still fit
	items   []Item
}

func newQuotaFiller(t *tariff, b int32, quota []Item) *quotaFiller {
	m, dims := t.m, t.m.dims
	q := &quotaFiller{
		m: m, room: m.bins[b].room, left: slices.Clone(quota), part: make([]float64, len(quota)*dims), share: make([]float64, dims),
		isEven: make([]bool, dims), free: make([]int64, dims), used: make([]float64, dims), taken: make([]int, len(quota)),
	}
	need := make([]float64, dims)
	for i, it := range quota {
		for d, s := range m.sizeOf(int(it.Class)) {
			q.part[i*dims+d] = float64(s) / max(float64(q.room[d]), 1)
			need[d] += q.part[i*dims+d] * float64(it.N)
		}
	}
	for d, n := range need {
		q.isEven[d] = n > slices.Max(need)*quotaNeeded
		q.share[d] = t.rate[int(t.familyOf[b])*dims+d]*float64(q.room[d])/max(t.price[b], tiny) + quotaEven
	}
	return q
}

// fill fills one bin, and takes what is in it from the quota. The items are the filler's own until the next call.
func (q *quotaFiller) fill(balance float64) []Item {
	copy(q.free, q.room)
	clear(q.used)
	clear(q.taken)
	q.items, q.fitting = q.items[:0], q.fitting[:0]
	for i := range q.left {
		if q.left[i].N > 0 {
			q.fitting = append(q.fitting, i)
		}
	}
	for {
		i := q.best(balance)
		if i < 0 {
			break
		}
		q.left[i].N--
		q.taken[i]++
		for d, s := range q.m.sizeOf(int(q.left[i].Class)) {
			q.free[d] -= s
			q.used[d] += q.part[i*q.m.dims+d]
		}
	}
	for i, n := range q.taken {
		if n > 0 {
			q.items = append(q.items, Item{Class: q.left[i].Class, N: n})
		}
	}
	return q.items
}

// best returns what to put into the bin next: large items first, but for those that put it out of balance. -1: nothing fits.
func (q *quotaFiller) best(balance float64) int {
	best, most, kept := -1, math.Inf(-1), q.fitting[:0]
	for _, i := range q.fitting {
		if q.left[i].N == 0 || !covers(q.free, q.m.sizeOf(int(q.left[i].Class))) {
			continue
		}
		kept = append(kept, i)
		score, high, low := 0.0, 0.0, math.Inf(1)
		for d, part := range q.part[i*q.m.dims:][:q.m.dims] {
			if q.isEven[d] {
				score += q.share[d] * part
				high, low = max(high, q.used[d]+part), min(low, q.used[d]+part)
			}
		}
		if score -= balance * (high - low); score > most {
			best, most = i, score
		}
	}
	q.fitting = kept
	return best
}
