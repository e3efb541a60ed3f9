package cover

// slack widens what is free where it is compared in 32 bits, so that nothing that fits
// exactly is lost to rounding. What is placed is compared in integers.
const slack = 1 + 1e-5

// filler fills single bins. It is the innermost loop of everything: what it needs lies in
// arrays that it keeps.
type filler struct {
	m      *model
	size   []float32 // of kind k in dimension d at [k*dims+d], in parts of unit
	unit   []float64 // per dimension
	rate   []float64 // as in tariff
	atomOf []int32
	mean   []float64 // size of an item on average
	left   []int     // items of each kind that are still to be packed
	value  []float32 // of an item of each kind

	// The bin at hand.
	free   []int64
	weight []float32 // of a dimension: the scarcer, the dearer
	share  []float64 // of each dimension in what the bin's room is worth
	even   float64   // how much all dimensions count alike, whatever they are worth
	within []float32 // what is free, as size counts
	taken  []int     // of each kind; zero but for those in items
	barred []int32   // the last bin, by serial, that a kind was barred from by a rival
	serial int32
	items  []Item // of kinds

	// The kinds that may still fit.
	cands []int32
	worth []float32
	sizes []float32
	// The best of them, best first.
	top   []int32
	score []float32
}

// widest is how many items are chosen at most between two looks at what is scarce.
const widest = 48

var Beta = 0.02

func newFiller(m *model) *filler {
	n := len(m.kinds)
	f := &filler{
		m: m, size: make([]float32, n*m.dims), unit: make([]float64, m.dims), mean: make([]float64, m.dims),
		left: make([]int, n), value: make([]float32, n),
		free: make([]int64, m.dims), weight: make([]float32, m.dims), share: make([]float64, m.dims), within: make([]float32, m.dims),
		taken: make([]int, n), barred: make([]int32, n),
		cands: make([]int32, n), worth: make([]float32, n), sizes: make([]float32, n*m.dims),
		top: make([]int32, 0, widest), score: make([]float32, 0, widest),
	}
	for d := range f.unit {
		f.unit[d] = 1
		for _, b := range m.bins {
			f.unit[d] = max(f.unit[d], float64(b.room[d]))
		}
		f.mean[d] = float64(m.total[d]) / float64(max(m.count, 1))
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
	f.reweigh()
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
// nothing still counts, for it may run short.
func (f *filler) shares(b int32) {
	sum := 0.0
	for d, r := range f.m.bins[b].room {
		f.share[d] = f.rate[int(f.atomOf[b])*f.m.dims+d] * float64(r)
		sum += f.share[d]
	}
	for d, r := range f.m.bins[b].room {
		f.share[d] = (f.share[d]/max(sum, cheapest) + f.even) * float64(r) / f.unit[d]
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

// gather collects the kinds that may be in the bin.
func (f *filler) gather(b int32, active []int32) int {
	n, d := 0, f.m.dims
	for _, k := range active {
		if f.left[k] == 0 || !f.m.groups[f.m.kinds[k].group].has(int(b)) {
			continue
		}
		f.cands[n] = k
		f.worth[n] = f.value[k]
		copy(f.sizes[n*d:(n+1)*d], f.size[int(k)*d:int(k+1)*d])
		n++
	}
	return n
}

// wanted returns how many kinds to choose at once: few when few more items fit.
func (f *filler) wanted() int {
	fits := 1e9
	for d, r := range f.free {
		if f.mean[d] > 0 {
			fits = min(fits, float64(r)/f.mean[d])
		}
	}
	return max(1, min(widest, int(fits/16)))
}

// scan drops the kinds of which nothing fits any more and chooses the best of the rest
// into top. It returns how many are left.
func (f *filler) scan(n int) int {
	f.top, f.score = f.top[:0], f.score[:0]
	want := f.wanted()
	least := float32(-1)
	kept, d := 0, f.m.dims
	for i := range n {
		k := f.cands[i]
		sizes := f.sizes[i*d : (i+1)*d]
		cost, fits := float32(1e-30), true
		for x, s := range sizes {
			if s > f.within[x] {
				fits = false
				break
			}
			cost += s * f.weight[x]
		}
		if !fits || f.spent(k) {
			continue
		}
		worth := f.worth[i]
		if kept != i {
			f.cands[kept], f.worth[kept] = k, worth
			copy(f.sizes[kept*d:(kept+1)*d], sizes)
		}
		kept++
		if score := worth / cost; score > least {
			least = f.choose(k, score, want)
		}
	}
	return kept
}

// spent reports whether no more of the kind may be in the bin, whatever is free.
func (f *filler) spent(k int32) bool {
	kind := &f.m.kinds[k]
	return f.taken[k] >= min(f.left[k], kind.most) || f.m.rivalry && f.barred[k] == f.serial
}

// choose puts the kind among the best and returns the score that the next has to beat.
func (f *filler) choose(k int32, score float32, want int) float32 {
	if len(f.top) < want {
		f.top = append(f.top, k)
		f.score = append(f.score, score)
	}
	i := len(f.top) - 1
	for ; i > 0 && f.score[i-1] < score; i-- {
		f.top[i], f.score[i] = f.top[i-1], f.score[i-1]
	}
	f.top[i], f.score[i] = k, score
	if len(f.top) < want {
		return -1
	}
	return f.score[len(f.score)-1]
}

// place puts a quarter of what fits of the kind into the bin, so that the next look at
// what is scarce comes in time.
func (f *filler) place(k int32) {
	if f.spent(k) {
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
	n := fit
	if fit > 3 {
		n = (fit + 3) / 4
	} else if fit > 1 {
		n = 1
	}
	n = min(n, int64(min(f.left[k], kind.most)-f.taken[k]))
	if n <= 0 {
		// Too close to call in 32 bits: never again in this bin.
		f.bar(k)
		return
	}
	if f.taken[k] == 0 {
		f.items = append(f.items, Item{Class: k})
		for _, r := range kind.rivals {
			f.bar(r)
		}
	}
	f.taken[k] += int(n)
	for d, s := range size {
		f.free[d] -= s * n
	}
}

func (f *filler) bar(k int32) { f.barred[k] = f.serial }
