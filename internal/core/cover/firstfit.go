package cover

import (
	"cmp"
	"slices"
)

// firstFit packs like everybody does: the largest items first, each into the first bin
// with room, whose type stays open until the end. It is the last member of the portfolio,
// so that no answer is dearer than this.
type firstFit struct {
	m     *model
	nodes []node
}

// node is a bin that is being filled, of any type that still holds what is in it, or
// several in a row that are filled alike.
type node struct {
	times int
	used  []int64
	room  []int64 // the most that a type of fits has of each dimension
	fits  bitset
	items []Item
}

// firstFitDecreasing packs everything into p and reports whether all items found room.
func (m *model) firstFitDecreasing(p *packing) bool {
	f := firstFit{m: m}
	order := make([]int32, len(m.kinds))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(-slices.Compare(m.sizeOf(int(a)), m.sizeOf(int(b))), cmp.Compare(a, b))
	})
	for _, k := range order {
		left := m.kinds[k].count
		for i := 0; left > 0 && i < len(f.nodes); i++ {
			left = f.put(i, k, left)
		}
		if left == 0 {
			continue
		}
		f.open(left) // as many as could be needed; those that are not are dropped again
		for i := len(f.nodes) - 1; left > 0 && i < len(f.nodes); i++ {
			left = f.put(i, k, left)
		}
		if left > 0 {
			return false
		}
		if last := len(f.nodes) - 1; len(f.nodes[last].items) == 0 {
			f.nodes = f.nodes[:last]
		}
	}
	return f.close(p)
}

// open adds so many empty bins.
func (f *firstFit) open(times int) {
	n := node{times: times, used: make([]int64, f.m.dims), room: make([]int64, f.m.dims), fits: newBitset(len(f.m.bins))}
	for b := range f.m.bins {
		n.fits.set(b)
		for d, r := range f.m.bins[b].room {
			n.room[d] = max(n.room[d], r)
		}
	}
	f.nodes = append(f.nodes, n)
}

// put places as many of the kind as there is room for in the bins at an index, and returns
// how many are left. Bins that are then no longer filled alike are parted, the fuller first.
func (f *firstFit) put(i int, k int32, left int) int {
	most := f.most(&f.nodes[i], k, left)
	if most == 0 {
		return left
	}
	full := min(f.nodes[i].times, left/most)
	if full < f.nodes[i].times {
		f.nodes = slices.Insert(f.nodes, i+1, f.nodes[i].part(f.nodes[i].times-full))
		f.nodes[i].times = full
	}
	f.add(&f.nodes[i], k, most)
	return left - full*most
}

// part returns so many bins filled alike.
func (n *node) part(times int) node {
	return node{times: times, used: slices.Clone(n.used), room: slices.Clone(n.room), fits: slices.Clone(n.fits), items: slices.Clone(n.items)}
}

// most returns how many of the kind one of the bins takes, of so many.
func (f *firstFit) most(n *node, k int32, left int) int {
	kind, size := &f.m.kinds[k], f.m.sizeOf(int(k))
	for d, s := range size {
		if n.used[d]+s > n.room[d] {
			return 0
		}
	}
	for _, it := range n.items {
		if _, rival := slices.BinarySearch(kind.rivals, it.Class); rival || it.Class == k {
			return 0
		}
	}
	group := f.m.groups[kind.group]
	most := int64(0)
	n.fits.each(func(b int) {
		if !group.has(b) {
			return
		}
		fit := int64(min(left, kind.most))
		for d, s := range size {
			if s > 0 {
				fit = min(fit, (f.m.bins[b].room[d]-n.used[d])/s)
			}
		}
		most = max(most, fit)
	})
	return int(most)
}

// add places so many of the kind in each of the bins.
func (f *firstFit) add(n *node, k int32, many int) {
	for d, s := range f.m.sizeOf(int(k)) {
		n.used[d] += s * int64(many)
	}
	group := f.m.groups[f.m.kinds[k].group]
	clear(n.room)
	n.fits.each(func(b int) {
		room := f.m.bins[b].room
		if !group.has(b) || !covers(room, n.used) {
			n.fits[b>>6] &^= 1 << (b & 63)
			return
		}
		for d, r := range room {
			n.room[d] = max(n.room[d], r)
		}
	})
	n.items = append(n.items, Item{Class: k, N: many})
}

// close opens for each node the cheapest type that is left, if there is one.
func (f *firstFit) close(p *packing) bool {
	stock := make([]int, len(f.m.bins))
	for b := range stock {
		stock[b] = f.m.bins[b].left
	}
	for _, n := range f.nodes {
		for n.times > 0 {
			least := -1
			n.fits.each(func(b int) {
				if least < 0 && stock[b] > 0 {
					least = b
				}
			})
			if least < 0 {
				return false
			}
			times := min(n.times, stock[least])
			stock[least] -= times
			n.times -= times
			p.add(int32(least), times, n.items, f.m.bins[least].price)
		}
	}
	return true
}
