package cover

import "math"

// slack widens what is free where it is compared in 32 bits, so that nothing that fits
// exactly is lost to rounding. What is placed is compared in integers.
const slack = 1 + 1e-5

// filler fills single bins. It is the innermost loop of everything: what it needs lies in
// arrays that it keeps.
//
// Bins are filled in two more places, by other algorithms on purpose. core/repack's filler
// (repack/fill.go) fills a bin for a few pods under the exact rules, and explains there why it
// is not this one. pack/launch fills nothing by itself: it puts pods on the nodes of an answer
// of this package as far as the exact rules let them (launch/open.go).
type filler struct {
	m        *model
	size     []float32 // of kind k in dimension d at [k*dims+d], in parts of unit
	unit     []float64 // per dimension
	rate     []float64 // as in tariff
	familyOf []int32
	mean     []float64 // size of an item on average
	left     []int     // items of each kind that are still to be packed
	value    []float32 // of an item of each kind
	least    []float64 // what an item of each kind costs where it is cheapest
	strict   float64   // to which power the value of a kind counts less the dearer it is in the bin at hand; 0: it does not

	// The bin at hand.
	free        []int64
	weight      []float32 // of a dimension: the scarcer, the dearer
	share       []float64 // of each dimension in what the bin's room is worth
	empty       []float64 // of each bin that is known, see shares: those parts, then what is free
	known       []bool
	even        float64   // how much all dimensions count alike, whatever they are worth
	within      []float32 // what is free, as size counts
	taken       []int     // of each kind; zero but for those in items
	barred      []int32   // the last bin, by serial, that a kind was barred from by a rival
	serial      int32
	items       []Item // of kinds
	evaluations int    // at candidates, ever

	cands []cand    // the kinds that may still fit
	more  []float32 // what their items take of the dimensions after the fourth, dims-4 each
	top   []int32   // the best of them, as indexes, best first
	score []float32
}

// cand is a kind that may still fit the bin at hand.
type cand struct {
	size  [4]float32 // of the first dimensions, as in filler
	worth float32
	kind  int32
}

// widest is how many items are chosen at most between two looks at what is scarce.
const widest = 48

// perKind is for how many items that fit one kind more is chosen at once.
const perKind = 16

// sampleBase and sampleMore, for each item that fits, is how many kinds are candidates of
// one filling at most.
const (
	sampleBase = 200
	sampleMore = 1
)

func newFiller(m *model) *filler {
	n := len(m.kinds)
	f := &filler{
		m: m, size: make([]float32, n*m.dims), unit: make([]float64, m.dims), mean: make([]float64, m.dims),
		left: make([]int, n), value: make([]float32, n),
		free: make([]int64, m.dims), weight: make([]float32, m.dims), share: make([]float64, m.dims), within: make([]float32, m.dims),
		taken: make([]int, n), barred: make([]int32, n),
		cands: make([]cand, n), more: make([]float32, n*max(m.dims-4, 0)),
		empty: make([]float64, 2*len(m.bins)*m.dims), known: make([]bool, len(m.bins)),
		top: make([]int32, 0, widest), score: make([]float32, 0, widest),
	}
	for d := range f.unit {
		f.unit[d] = 1
		for _, b := range m.bins {
			f.unit[d] = max(f.unit[d], float64(b.room[d]))
		}
		f.mean[d] = m.total[d] / float64(max(m.count, 1))
	}
	for i, s := range m.size {
		f.size[i] = float32(float64(s) / f.unit[i%m.dims])
	}
	return f
}

// fill chooses items for an empty bin and returns them and their value. They are the
// filler's own until the next call.
func (f *filler) fill(b int32, active []int32) ([]Item, float64) {
	f.begin(b)
	n := f.gather(b, active)
	for n > 0 {
		n = f.scan(n)
		if len(f.top) == 0 {
			break
		}
		for _, c := range f.top {
			f.place(c)
		}
		f.reweigh()
	}
	return f.end()
}

func (f *filler) begin(b int32) {
	f.items = f.items[:0]
	f.serial++
	copy(f.free, f.m.bins[b].room)
	f.shares(b)
}

// end returns what was placed and forgets it.
func (f *filler) end() ([]Item, float64) {
	value := 0.0
	for i := range f.items {
		k := f.items[i].Class
		f.items[i].N = f.taken[k]
		f.taken[k] = 0
		value += float64(f.value[k]) * float64(f.items[i].N)
	}
	return f.items, value
}

// shares works out what part of the bin's worth each dimension is. One that is worth
// nothing still counts, for it may run short. That part, and what is free in units of the
// dimension, stay the same as long as the bin is empty.
func (f *filler) shares(b int32) {
	d, room := f.m.dims, f.m.bins[b].room
	part, free := f.empty[2*int(b)*d:][:d], f.empty[(2*int(b)+1)*d:][:d]
	if !f.known[b] {
		f.known[b] = true
		sum := 0.0
		for d, r := range room {
			part[d] = f.rate[int(f.familyOf[b])*f.m.dims+d] * float64(r)
			sum += part[d]
		}
		for d, r := range room {
			part[d] /= max(sum, tiny)
			free[d] = float64(r) / f.unit[d]
		}
	}
	for d, r := range room {
		f.share[d] = (part[d] + f.even) * float64(r) / f.unit[d]
		f.within[d] = float32(free[d] * slack)
		f.weight[d] = 0
		if r > 0 {
			f.weight[d] = float32(f.share[d] / free[d])
		}
	}
}

// reweigh prices what is free by how little of it there is.
func (f *filler) reweigh() {
	for d, r := range f.free {
		free := float64(r) / f.unit[d]
		f.within[d] = float32(free * slack)
		f.weight[d] = 0
		if r > 0 {
			f.weight[d] = float32(f.share[d] / free)
		}
	}
}

// gather collects the kinds that may be in the bin; when there are very many more than
// it holds, an even sample of them, another one each time.
func (f *filler) gather(b int32, active []int32) int {
	n, d := 0, f.m.dims
	every, skip := f.sample(b, active)
	for _, k := range active {
		if !f.m.groups[f.m.kinds[k].group].has(int(b)) {
			continue
		}
		if skip++; skip < every {
			continue
		}
		skip = 0
		c := &f.cands[n]
		c.kind, c.worth = k, f.value[k]*f.aptness(k, b)
		sizes := f.size[int(k)*d : int(k+1)*d]
		c.size = [4]float32{}
		copy(c.size[:], sizes)
		if d > 4 {
			copy(f.more[n*(d-4):], sizes[4:])
		}
		n++
	}
	return n
}

// aptness returns by what the value of a kind counts in a bin: the less the dearer it is there.
func (f *filler) aptness(k, b int32) float32 {
	if f.strict == 0 {
		return 1
	}
	cost, rate := 0.0, f.rate[int(f.familyOf[b])*f.m.dims:]
	for d, s := range f.m.sizeOf(int(k)) {
		cost += rate[d] * float64(s)
	}
	if cost <= f.least[k] {
		return 1
	}
	return float32(math.Pow(f.least[k]/cost, f.strict))
}

// sample returns which part of the active kinds to look at: one in every, and how many
// of those before the first have passed already.
func (f *filler) sample(b int32, active []int32) (every, skip int) {
	enough := sampleBase + sampleMore*f.fits()
	if len(active) <= enough {
		return 1, 0
	}
	allowed := 0
	for _, k := range active {
		if f.m.groups[f.m.kinds[k].group].has(int(b)) {
			allowed++
		}
	}
	every = max(1, allowed/enough)
	return every, int(f.serial) % every
}

// fits returns how many more items of average size the bin can take, about.
func (f *filler) fits() int {
	fits := 1e9
	for d, r := range f.free {
		if f.mean[d] > 0 {
			fits = min(fits, float64(r)/f.mean[d])
		}
	}
	return int(fits)
}

// wanted returns how many kinds to choose at once: few when few more items fit.
func (f *filler) wanted() int {
	for d, r := range f.free {
		if float64(r) < (2*perKind-1)*f.mean[d] { // nearly always
			return 1
		}
	}
	return max(1, min(widest, f.fits()/perKind))
}

// scan drops the kinds of which nothing fits any more and chooses the best of the rest
// into top. It returns how many are left.
func (f *filler) scan(n int) int {
	f.top, f.score = f.top[:0], f.score[:0]
	f.evaluations += n
	want, least, kept := f.wanted(), float32(-1), 0
	if want == 1 && f.m.dims <= 4 {
		return f.scanForOne(n)
	}
	var in, by [4]float32
	copy(in[:], f.within)
	copy(by[:], f.weight)
	in0, in1, in2, in3 := in[0], in[1], in[2], in[3]
	by0, by1, by2, by3 := by[0], by[1], by[2], by[3]
	cands, wide, rivalry := f.cands[:n], f.m.dims > 4, f.m.rivalry
	for i := range cands {
		c := &cands[i]
		x0, x1, x2, x3 := c.size[0], c.size[1], c.size[2], c.size[3]
		if x0 > in0 || x1 > in1 || x2 > in2 || x3 > in3 {
			continue
		}
		cost := 1e-30 + x0*by0 + x1*by1 + x2*by2 + x3*by3
		if wide {
			more, fits := f.beyond(i, kept)
			if !fits {
				continue
			}
			cost += more
		}
		if rivalry && f.barred[c.kind] == f.serial {
			continue
		}
		if kept != i {
			cands[kept] = *c
		}
		if c.worth > least*cost {
			least = f.choose(int32(kept), c.worth/cost, want)
		}
		kept++
	}
	return kept
}

// scanForOne is scan where a single kind is wanted and has no more than four dimensions:
// nearly always. It calls nothing, so that all it needs stays in registers.
func (f *filler) scanForOne(n int) int {
	var in, by [4]float32
	copy(in[:], f.within)
	copy(by[:], f.weight)
	in0, in1, in2, in3 := in[0], in[1], in[2], in[3]
	by0, by1, by2, by3 := by[0], by[1], by[2], by[3]
	cands, rivalry := f.cands[:n], f.m.rivalry
	least, best, kept := float32(-1), -1, 0
	for i := range cands {
		c := &cands[i]
		x0, x1, x2, x3 := c.size[0], c.size[1], c.size[2], c.size[3]
		if x0 > in0 || x1 > in1 || x2 > in2 || x3 > in3 || rivalry && f.barred[c.kind] == f.serial {
			continue
		}
		cost := 1e-30 + x0*by0 + x1*by1 + x2*by2 + x3*by3
		worth := c.worth
		if kept != i {
			cands[kept] = *c
		}
		if worth > least*cost {
			least, best = worth/cost, kept
		}
		kept++
	}
	if best >= 0 {
		f.top = append(f.top, int32(best))
	}
	return kept
}

// beyond looks at the dimensions after the fourth of the candidate at an index, which
// moves to another: what they cost, and whether they fit.
func (f *filler) beyond(from, to int) (cost float32, fits bool) {
	n := f.m.dims - 4
	sizes := f.more[from*n : (from+1)*n]
	for x, s := range sizes {
		if s > f.within[4+x] {
			return 0, false
		}
		cost += s * f.weight[4+x]
	}
	copy(f.more[to*n:], sizes)
	return cost, true
}

// choose puts the candidate among the best and returns the score that the next has to beat.
func (f *filler) choose(c int32, score float32, want int) float32 {
	if len(f.top) < want {
		f.top = append(f.top, c)
		f.score = append(f.score, score)
	}
	i := len(f.top) - 1
	for ; i > 0 && f.score[i-1] < score; i-- {
		f.top[i], f.score[i] = f.top[i-1], f.score[i-1]
	}
	f.top[i], f.score[i] = c, score
	if len(f.top) < want {
		return -1
	}
	return f.score[len(f.score)-1]
}

// place puts a quarter of what fits of the candidate's kind into the bin, so that the next
// look at what is scarce comes in time.
func (f *filler) place(c int32) {
	k := f.cands[c].kind
	if f.m.rivalry && f.barred[k] == f.serial {
		return
	}
	kind := &f.m.kinds[k]
	size := f.m.sizeOf(int(k))
	fit := int64(unlimited)
	for d, s := range size {
		if s > 0 {
			fit = min(fit, f.free[d]/s)
		}
	}
	limit := int64(min(f.left[k], kind.most) - f.taken[k])
	n := min(limit, max((fit+3)/4, min(fit, 1)))
	if n == limit || fit <= 0 {
		// No more of it, or too close to call in 32 bits: the next scan drops it.
		f.cands[c].size[0] = math.MaxFloat32
	}
	if n <= 0 {
		return
	}
	if f.taken[k] == 0 {
		f.items = append(f.items, Item{Class: k})
		for _, r := range kind.rivals {
			f.barred[r] = f.serial
		}
	}
	f.taken[k] += int(n)
	for d, s := range size {
		f.free[d] -= s * n
	}
}
