package cover

import "slices"

// packing is an answer in terms of the model.
type packing struct {
	loads  []load
	items  []Item // of kinds; each load has its own part
	cost   float64
	placed int // items
}

// load is a filling of a bin and how often it is opened.
type load struct {
	bin      int32
	times    int
	from, to int32 // in items
}

func (p *packing) reset() { *p = packing{loads: p.loads[:0], items: p.items[:0]} }

func (p *packing) add(bin int32, times int, items []Item, price float64) {
	from := int32(len(p.items))
	p.items = append(p.items, items...)
	p.loads = append(p.loads, load{bin: bin, times: times, from: from, to: int32(len(p.items))})
	p.cost += price * float64(times)
	for _, it := range items {
		p.placed += it.N * times
	}
}

// better reports whether p places more than o, or as much for less.
func (p *packing) better(o *packing) bool {
	return p.placed > o.placed || p.placed == o.placed && p.cost < o.cost
}

func (p *packing) of(l load) []Item { return p.items[l.from:l.to] }

func (p *packing) copyFrom(o *packing) {
	p.loads = append(p.loads[:0], o.loads...)
	p.items = append(p.items[:0], o.items...)
	p.cost, p.placed = o.cost, o.placed
}

// candidate is the best that is known to do with a bin.
type candidate struct {
	items []Item
	tried bool
}

// greedy opens bins for all that is left, best value for money first.
type greedy struct {
	*filler
	candidates []candidate
	ratio      []float64 // of each bin, its value for money; before it is tried, the estimate
	per        []float64 // of each bin, one by its price
	active     []int32   // kinds of which something is left, in order
	stock      []int     // of each bin
	mask       bitset
}

func newGreedy(m *model) *greedy {
	n := len(m.bins)
	b := &greedy{filler: newFiller(m), candidates: make([]candidate, n), ratio: make([]float64, n), per: make([]float64, n), stock: make([]int, n), mask: newBitset(n)}
	for i := range b.per {
		b.per[i] = 1 / max(m.bins[i].price, tiny)
	}
	return b
}

// everything makes all items of the model wait.
func (b *greedy) everything() {
	b.active = b.active[:0]
	for k := range b.m.kinds {
		b.left[k] = b.m.kinds[k].count
		b.active = append(b.active, int32(k))
	}
	for i := range b.stock {
		b.stock[i] = b.m.bins[i].left
	}
}

// cover packs what is left into p. The estimate is for each bin what its value for money is
// thought to be at most. It gives up and returns false when p costs the limit or more.
func (b *greedy) cover(p *packing, estimate []float64, limit float64) bool {
	for i := range b.candidates {
		b.candidates[i].tried = false
	}
	copy(b.ratio, estimate)
	wealth := b.wealth()
	for len(b.active) > 0 {
		best := b.best(wealth)
		if best < 0 {
			return true
		}
		o := &b.candidates[best]
		if b.stock[best] <= 0 {
			b.ratio[best] = -1
			continue
		}
		if !o.tried || !b.waits(o.items) {
			items, value := b.fill(int32(best), b.active)
			o.items, o.tried = append(o.items[:0], items...), true
			b.ratio[best] = value * b.per[best]
			if len(items) == 0 {
				b.ratio[best] = -1
			}
			continue
		}
		b.open(p, int32(best))
		wealth = b.wealth()
		if p.cost >= limit {
			return false
		}
	}
	return true
}

// wealth returns the value of all that is left.
func (b *greedy) wealth() float64 {
	sum := 0.0
	for _, k := range b.active {
		sum += float64(b.value[k]) * float64(b.left[k])
	}
	return sum
}

// best returns the bin with the best value for money, -1 if there is none. No bin can hold more than
// all there is: most are too large for what is left in the end.
func (b *greedy) best(wealth float64) int {
	best, most := -1, -1.0
	wealth *= 1 + 1e-6
	for i, r := range b.ratio {
		if r > most {
			if r = min(r, wealth*b.per[i]); r > most {
				best, most = i, r
			}
		}
	}
	return best
}

// waits reports whether so many items are still to be packed.
func (b *greedy) waits(items []Item) bool {
	for _, it := range items {
		if b.left[it.Class] < it.N {
			return false
		}
	}
	return len(items) > 0
}

// open opens bins with the content of the best candidate, as often as it can be had, of the
// cheapest kind that holds it.
func (b *greedy) open(p *packing, from int32) {
	items := b.candidates[from].items
	at := b.cheapest(items, from)
	times := b.stock[at]
	for _, it := range items {
		times = min(times, b.left[it.Class]/it.N)
	}
	for _, it := range items {
		b.left[it.Class] -= it.N * times
	}
	b.stock[at] -= times
	p.add(at, times, items, b.m.bins[at].price)
	b.prune()
}

// prune forgets the kinds of which nothing is left.
func (b *greedy) prune() {
	b.active = slices.DeleteFunc(b.active, func(k int32) bool { return b.left[k] == 0 })
}

// cheapest returns the cheapest bin that holds the items, which the given one does.
func (b *greedy) cheapest(items []Item, given int32) int32 {
	m := b.m
	for i := range b.mask {
		b.mask[i] = ^uint64(0)
	}
	clear(b.free)
	for _, it := range items {
		for i, w := range m.groups[m.kinds[it.Class].group] {
			b.mask[i] &= w
		}
		for d, s := range m.sizeOf(int(it.Class)) {
			b.free[d] += s * int64(it.N)
		}
	}
	for i := range given { // bins are in the order of their prices
		if b.mask.has(int(i)) && b.stock[i] > 0 && covers(m.bins[i].room, b.free) {
			return i
		}
	}
	return given
}
