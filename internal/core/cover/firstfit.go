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

// node is a bin that is being filled, of any type that still holds what is in it.
type node struct {
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
			left -= f.put(&f.nodes[i], k, left)
		}
		for left > 0 {
			f.open()
			n := f.put(&f.nodes[len(f.nodes)-1], k, left)
			if n == 0 {
				return false
			}
			left -= n
		}
	}
	return f.close(p)
}

func (f *firstFit) open() {
	n := node{used: make([]int64, f.m.dims), room: make([]int64, f.m.dims), fits: newBitset(len(f.m.bins))}
	for b := range f.m.bins {
		n.fits.set(b)
		for d, r := range f.m.bins[b].room {
			n.room[d] = max(n.room[d], r)
		}
	}
	f.nodes = append(f.nodes, n)
}

// put places as many of the kind as there is room for and returns how many.
func (f *firstFit) put(n *node, k int32, left int) int {
	kind, size := &f.m.kinds[k], f.m.sizeOf(int(k))
	for d, s := range size {
		if n.used[d]+s > n.room[d] {
			return 0
		}
	}
	for _, it := range n.items {
		if _, rival := slices.BinarySearch(kind.rivals, it.Class); rival {
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
	if most == 0 {
		return 0
	}
	for d, s := range size {
		n.used[d] += s * most
	}
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
	n.items = append(n.items, Item{Class: k, N: int(most)})
	return int(most)
}

// close buys for each node the cheapest type that is left, if there is one.
func (f *firstFit) close(p *packing) bool {
	stock := make([]int, len(f.m.bins))
	for b := range stock {
		stock[b] = f.m.bins[b].left
	}
	for _, n := range f.nodes {
		cheapest := -1
		n.fits.each(func(b int) {
			if cheapest < 0 && stock[b] > 0 {
				cheapest = b
			}
		})
		if cheapest < 0 {
			return false
		}
		stock[cheapest]--
		p.add(int32(cheapest), 1, n.items, f.m.bins[cheapest].price)
	}
	return true
}
