package cover

import (
	"cmp"
	"math"
	"slices"
)

// model is a Problem reduced to what matters: dimensions that somebody takes, classes
// merged where they are alike, bins without those that another is better than.
type model struct {
	dims  int
	kinds []kind
	size  []int64 // of kind k at [k*dims:]
	bins  []bin
	// groups are the distinct sets of bins (of the model) that kinds are allowed on.
	groups []bitset
	// members are the classes of the problem in each kind, in order.
	members []int32
	rivalry bool      // whether any kind has rivals
	total   []float64 // of all kinds by dimension
	count   int
}

// kind is the classes that are alike to the solver.
type kind struct {
	count  int
	most   int // in one bin
	group  int32
	rivals []int32 // kinds that may not share a bin with it
	first  int32   // in members
	last   int32
}

// bin is something to open.
type bin struct {
	room  []int64
	price float64 // with the fee
	left  int     // never 0: unlimited is a very large number
	orig  int32   // in the problem
	sig   int32   // bins of equal sig are allowed to the same groups
}

const unlimited = 1 << 40

// inf is more than anything costs.
const inf = math.MaxFloat64

// compile reduces the problem. Classes without items or without a bin that one of them
// fits in are in no kind.
func compile(p *Problem) *model {
	m := &model{}
	dims := usedDims(p)
	m.dims = len(dims)
	var masks interned
	group := make([]int32, len(p.Classes))
	for i := range p.Classes {
		group[i] = masks.number(p.Classes[i].Bins)
	}
	m.compileBins(p, dims, masks.sets)
	m.compileKinds(p, dims, group)
	return m
}

// usedDims returns the dimensions of which some item takes something.
func usedDims(p *Problem) []int {
	var dims []int
	for d := range p.Dims {
		if slices.ContainsFunc(p.Classes, func(c Class) bool { return c.Count > 0 && c.Size[d] > 0 }) {
			dims = append(dims, d)
		}
	}
	return dims
}

// compileBins keeps the bins that no other is better than: as cheap, with as much room,
// open to the same classes and more, and without end.
func (m *model) compileBins(p *Problem, dims []int, masks []bitset) {
	// sigs has a row for each bin: the groups allowed on it.
	words := (len(masks) + 63) / 64
	rows := make(bitset, words*len(p.Bins))
	for g, set := range masks {
		set.each(func(b int) {
			if b < len(p.Bins) {
				rows[b*words : (b+1)*words].set(g)
			}
		})
	}
	var sigs interned
	all := make([]bin, 0, len(p.Bins))
	slab := make([]int64, 0, len(p.Bins)*len(dims))
	alike := 0 // from here on in all the bins have room alike
	for i := range p.Bins {
		b := &p.Bins[i]
		row := rows[i*words : (i+1)*words]
		if !slices.ContainsFunc(row, func(w uint64) bool { return w != 0 }) {
			continue
		}
		from := len(slab)
		for _, d := range dims {
			slab = append(slab, b.Capacity[d])
		}
		left := b.Left
		if left <= 0 {
			left = unlimited
		}
		own := bin{room: slab[from:len(slab):len(slab)], price: b.Price + p.BinFee, left: left, orig: int32(i), sig: sigs.number(row)}
		if alike < len(all) && !slices.Equal(all[alike].room, own.room) {
			alike = len(all)
		}
		if left != unlimited || !replace(all[alike:], &own) {
			all = append(all, own)
		}
	}
	slices.SortFunc(all, func(a, b bin) int {
		if a.price != b.price {
			return cmp.Compare(a.price, b.price)
		}
		return cmp.Or(-slices.Compare(a.room, b.room), cmp.Compare(a.orig, b.orig))
	})
	above := supersets(sigs.sets)
	kept := make([][]int32, len(sigs.sets)) // unlimited bins of each sig, cheapest first
	for _, b := range all {
		if m.surpassed(b, kept, above[b.sig]) {
			continue
		}
		if b.left == unlimited {
			kept[b.sig] = append(kept[b.sig], int32(len(m.bins)))
		}
		m.bins = append(m.bins, b)
	}
	m.groups = make([]bitset, len(masks))
	for g := range masks {
		m.groups[g] = newBitset(len(m.bins))
		for i, b := range m.bins {
			if sigs.sets[b.sig].has(g) {
				m.groups[g].set(i)
			}
		}
	}
}

// replace reports whether among bins with as much room there is one without end that is open
// to the same classes; it is then the cheaper of both.
func replace(bins []bin, b *bin) bool {
	for i := range bins {
		if o := &bins[i]; o.sig == b.sig && o.left == unlimited {
			if b.price < o.price {
				*o = *b
			}
			return true
		}
	}
	return false
}

// surpassed reports whether one of the bins that were kept, by sig, is as good as this one.
func (m *model) surpassed(b bin, kept [][]int32, above []int32) bool {
	for _, sig := range above {
		for _, o := range kept[sig] {
			if covers(m.bins[o].room, b.room) {
				return true
			}
		}
	}
	return false
}

// supersets returns for each set those that hold all of it, itself included.
func supersets(sets []bitset) [][]int32 {
	above := make([][]int32, len(sets))
	for i, s := range sets {
		for j, o := range sets {
			if s.within(o) {
				above[i] = append(above[i], int32(j))
			}
		}
	}
	return above
}

// covers reports whether the room is enough in every dimension.
func covers(room, need []int64) bool {
	for d, n := range need {
		if room[d] < n {
			return false
		}
	}
	return true
}

// compileKinds merges the classes that are alike.
func (m *model) compileKinds(p *Problem, dims []int, group []int32) {
	d := m.dims
	slab := make([]int64, 0, len(p.Classes)*d)
	order := make([]int32, 0, len(p.Classes))
	single := singles(p)
	for i := range p.Classes {
		for _, x := range dims {
			slab = append(slab, p.Classes[i].Size[x])
		}
		if p.Classes[i].Count > 0 && m.fitsSome(slab[i*d:(i+1)*d], m.groups[group[i]]) {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(group[a], group[b]), -slices.Compare(slab[int(a)*d:int(a+1)*d], slab[int(b)*d:int(b+1)*d]), cmp.Compare(a, b))
	})
	of := make([]int32, len(p.Classes))
	for i := range of {
		of[i] = -1
	}
	m.total = make([]float64, d)
	m.members = order
	for i, c := range order {
		size := slab[int(c)*d : int(c+1)*d]
		last := len(m.kinds) - 1
		alike := last >= 0 && group[c] == m.kinds[last].group && slices.Equal(size, m.size[last*d:(last+1)*d]) &&
			!single[c] && !single[order[i-1]]
		if !alike {
			most := p.Classes[c].PerBin
			if most <= 0 {
				most = unlimited
			}
			m.kinds = append(m.kinds, kind{most: most, group: group[c], first: int32(i)})
			m.size = append(m.size, size...)
			last++
		}
		k := &m.kinds[last]
		k.last = int32(i + 1)
		k.count += p.Classes[c].Count
		m.count += p.Classes[c].Count
		of[c] = int32(last)
		for x, s := range size {
			m.total[x] += float64(s) * float64(p.Classes[c].Count)
		}
	}
	m.compileRivals(p, of)
}

// singles says which classes have rules of their own and so cannot be merged.
func singles(p *Problem) []bool {
	single := make([]bool, len(p.Classes))
	for i := range p.Classes {
		c := &p.Classes[i]
		if c.PerBin > 0 {
			single[i] = true
		}
		for _, o := range c.Conflicts {
			single[i], single[o] = true, true
		}
	}
	return single
}

func (m *model) fitsSome(size []int64, group bitset) bool {
	for i := range m.bins {
		if group.has(i) && covers(m.bins[i].room, size) {
			return true
		}
	}
	return false
}

// compileRivals makes conflicts hold both ways.
func (m *model) compileRivals(p *Problem, of []int32) {
	for i := range p.Classes {
		for _, o := range p.Classes[i].Conflicts {
			a, b := of[i], of[o]
			if a < 0 || b < 0 || a == b {
				continue
			}
			m.rivalry = true
			m.kinds[a].rivals = append(m.kinds[a].rivals, b)
			m.kinds[b].rivals = append(m.kinds[b].rivals, a)
		}
	}
	for i := range m.kinds {
		slices.Sort(m.kinds[i].rivals)
		m.kinds[i].rivals = slices.Compact(m.kinds[i].rivals)
	}
}
