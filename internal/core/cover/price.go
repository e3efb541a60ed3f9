package cover

import (
	"math"
	"slices"
)

const (
	// safety is what valid bounds give away to rounding.
	safety = 1e-9
	// nudge keeps the rows that need nothing from all being ties.
	nudge = 1e-7
	// tiny is what a bin that costs nothing counts as where prices divide.
	tiny = 1e-12
)

// tariff is what things are worth: a price for each dimension in each family, at which no
// bin holds more than it costs, and from it the price of an item of each kind, which is
// that of the family where it is cheapest.
type tariff struct {
	m        *model
	price    []float64 // of each bin
	limited  []int32   // the bins of which there is only so many
	families []family
	familyOf []int32   // of each bin
	sets     []bitset  // the distinct sets of families where kinds may be
	setOf    []int32   // of each kind
	flowOf   []int32   // of each kind: kinds of one flow are shared out alike
	flows    []int32   // the set of each flow
	rate     []float64 // of dimension d in family a at [a*dims+d]
	value    []float64 // of an item of each kind
	target   []int32   // the family where each kind is cheapest
	bound    float64   // the sum of all values
	used     []bool    // whether the program opens a bin
	cuts     []cut
	toll     []float64 // of each bin, what it is worth to the kinds of cuts beside its room
}

// family is a set of bins that are open to the same groups and priced alike.
type family struct {
	sig  int32
	bins []int32
}

// newTariff prices the kinds of the model, given the prices of its bins.
func newTariff(m *model, price []float64) *tariff {
	n := len(m.kinds)
	t := &tariff{
		m: m, price: price, familyOf: make([]int32, len(m.bins)), setOf: make([]int32, n), flowOf: make([]int32, n),
		value: make([]float64, n), target: make([]int32, n), used: make([]bool, len(m.bins)),
	}
	for i, b := range m.bins {
		a := slices.IndexFunc(t.families, func(a family) bool { return a.sig == b.sig })
		if a < 0 {
			a = len(t.families)
			t.families = append(t.families, family{sig: b.sig})
		}
		t.familyOf[i] = int32(a)
		t.families[a].bins = append(t.families[a].bins, int32(i))
		if b.left != unlimited {
			t.limited = append(t.limited, int32(i))
		}
	}
	t.cuts, t.toll = m.cuts(), make([]float64, len(m.bins))
	t.sort()
	t.solve()
	t.refine()
	return t
}

// sort finds out which kind may be in which family.
func (t *tariff) sort() {
	m := t.m
	var sets interned
	row := newBitset(len(t.families))
	for k := range m.kinds {
		clear(row)
		for a := range t.families {
			if m.groups[m.kinds[k].group].has(int(t.families[a].bins[0])) && t.fits(k, t.families[a].bins) {
				row.set(a)
			}
		}
		t.setOf[k] = sets.number(row)
	}
	t.sets = sets.sets
	flows := make([]int32, 3*len(t.sets))
	t.flows = t.flows[:0]
	for k := range m.kinds {
		f := &flows[int(t.setOf[k])*3+m.lean(k)]
		if *f == 0 {
			t.flows = append(t.flows, t.setOf[k])
			*f = int32(len(t.flows))
		}
		t.flowOf[k] = *f - 1
	}
	t.rate = make([]float64, len(t.families)*m.dims)
}

// fits reports whether an item of the kind has room in one of the bins.
func (t *tariff) fits(k int, bins []int32) bool {
	size := t.m.sizeOf(k)
	for _, b := range bins {
		if covers(t.m.bins[b].room, size) {
			return true
		}
	}
	return false
}

// lean sorts kinds by whether they take more of the first dimension, of the second, or
// of both alike.
func (m *model) lean(k int) int {
	if m.dims < 2 {
		return 0
	}
	a := float64(m.size[k*m.dims]) / max(m.total[0], 1)
	b := float64(m.size[k*m.dims+1]) / max(m.total[1], 1)
	switch {
	case a > 2*b:
		return 0
	case b > 2*a:
		return 1
	default:
		return 2
	}
}

const (
	// rowsMax bounds the program that refine makes larger, rounds how often it does so.
	rowsMax = 160
	rounds  = 12
)

// refine takes families apart as long as it is bins that some kinds priced there do not fit
// in that make them cheap.
func (t *tariff) refine() {
	for range rounds {
		if len(t.families)*t.m.dims+len(t.flows) > rowsMax || !t.split() {
			return
		}
		t.sort()
		t.solve()
	}
}

// split takes families apart into the bins that some kind fits in and those that it does
// not, and reports whether there was one.
func (t *tariff) split() bool {
	m := t.m
	misfit := make([]float64, len(m.bins)) // by bin, the worth of kinds priced by it that do not fit
	least := make([]int32, len(m.bins))    // and the cheapest of those kinds
	for k := range m.kinds {
		for _, b := range t.families[t.target[k]].bins {
			if t.used[b] && !covers(m.bins[b].room, m.sizeOf(k)) {
				if misfit[b] == 0 || t.value[k] < t.value[least[b]] {
					least[b] = int32(k)
				}
				misfit[b] += t.value[k] * float64(m.kinds[k].count)
			}
		}
	}
	parted := false
	for a := range len(t.families) {
		worst, most := int32(-1), 1e-3*t.bound
		for _, b := range t.families[a].bins {
			if misfit[b] > most {
				worst, most = b, misfit[b]
			}
		}
		if worst >= 0 {
			t.divide(a, m.sizeOf(int(least[worst])))
			parted = true
		}
	}
	return parted
}

// divide moves the bins of the family that such an item does not fit in to a new one.
func (t *tariff) divide(a int, size []int64) {
	var in, out []int32
	for _, b := range t.families[a].bins {
		if covers(t.m.bins[b].room, size) {
			in = append(in, b)
		} else {
			out = append(out, b)
			t.familyOf[b] = int32(len(t.families))
		}
	}
	t.families[a].bins = in
	t.families = append(t.families, family{sig: t.families[a].sig, bins: out})
}

func (m *model) sizeOf(k int) []int64 { return m.size[k*m.dims : (k+1)*m.dims] }

// solve finds the rates at which all items together are worth most.
func (t *tariff) solve() {
	m := t.m
	scale := make([]float64, m.dims) // a dimension's total need counts as one
	for d := range scale {
		scale[d] = 1 / max(m.total[d], 1)
	}
	dearest := tiny
	for _, p := range t.price {
		dearest = max(dearest, p)
	}
	l, first := t.program(scale, dearest)
	l.solve(50 * l.rows)
	for i := range m.bins {
		t.used[i] = l.in[first+int32(i)]
	}
	for a := range t.families {
		for d := range m.dims {
			t.rate[a*m.dims+d] = max(l.prices[a*m.dims+d], 0) * scale[d] * dearest
		}
	}
	for c := range t.cuts {
		t.cuts[c].toll = max(l.prices[l.rows-len(t.cuts)+c], 0) * dearest / m.binsFor(t.cuts[c].kind)
	}
	t.converge()
}

// program returns the linear program: room for each dimension in each family, a share of
// each flow to somewhere, and no more bins than there are. The columns of bins begin at first.
func (t *tariff) program(scale []float64, dearest float64) (l *linear, first int32) {
	m := t.m
	rows := len(t.families) * m.dims
	shares := rows + len(t.flows)
	last := shares + len(t.limited)
	need := make([]float64, last+len(t.cuts))
	for i := range need {
		switch {
		case i < rows:
			need[i] = nudge / float64(i+1)
		case i < shares || i >= last:
			need[i] = 1
		default:
			need[i] = -float64(m.bins[t.limited[i-shares]].left)
		}
	}
	l = newLinear(need, 1e6)
	first = int32(len(l.cost))
	index, value := make([]int32, 0, m.dims+1), make([]float64, 0, m.dims+1)
	limited := 0
	for i, b := range m.bins {
		index, value = index[:0], value[:0]
		for d, r := range b.room {
			index = append(index, t.familyOf[i]*int32(m.dims)+int32(d))
			value = append(value, float64(r)*scale[d])
		}
		if b.left != unlimited {
			index, value = append(index, int32(shares+limited)), append(value, -1)
			limited++
		}
		for c, at := range t.cuts {
			if m.may(at.kind, int32(i)) {
				index, value = append(index, int32(last+c)), append(value, 1/m.binsFor(at.kind))
			}
		}
		l.add(t.price[i]/dearest, index, value)
	}
	demand := make([]float64, len(t.flows)*m.dims)
	for k := range m.kinds {
		for d, s := range m.sizeOf(k) {
			demand[int(t.flowOf[k])*m.dims+d] += float64(s) * float64(m.kinds[k].count) * scale[d]
		}
	}
	for f, set := range t.flows {
		t.sets[set].each(func(a int) {
			index, value = append(index[:0], int32(rows+f)), append(value[:0], 1)
			for d := range m.dims {
				if v := demand[f*m.dims+d]; v > 0 {
					index, value = append(index, int32(a*m.dims+d)), append(value, -v)
				}
			}
			l.add(0, index, value)
		})
	}
	return l, first
}

// converge makes the rates valid, whatever they were, and as high as the bins of each family
// allow, and prices the kinds. A bin of which there is only so many may hold more than it
// costs; the bound pays for that.
func (t *tariff) converge() {
	t.convergeTolls()
	for a, at := range t.families {
		over, endless := 0.0, true
		for _, b := range at.bins {
			if t.m.bins[b].left != unlimited {
				endless = false
				continue
			}
			if t.price[b] < tiny {
				over = math.Inf(1)
			}
			over = max(over, t.roomWorth(b)/max(t.price[b]-t.toll[b], tiny))
		}
		if over == 0 || over < 1 && !endless {
			continue
		}
		rate := t.rate[a*t.m.dims : (a+1)*t.m.dims]
		for d := range rate {
			rate[d] /= over * (1 + safety)
		}
	}
	counts := make([]int, len(t.m.kinds))
	for k := range counts {
		t.value[k], t.target[k] = t.worth(k)
		counts[k] = t.m.kinds[k].count
	}
	for _, c := range t.cuts {
		t.value[c.kind] += c.toll / float64(t.m.kinds[c.kind].most)
	}
	t.bound = t.least(counts)
}

// held returns what the bin is worth: its room, and the toll.
func (t *tariff) held(b int32) float64 { return t.toll[b] + t.roomWorth(b) }

// roomWorth returns what the room of the bin is worth. Where the toll is all that the bin is worth, that may be so little
// that it is lost beside the toll.
func (t *tariff) roomWorth(b int32) (worth float64) {
	first := int(t.familyOf[b]) * t.m.dims
	for d, r := range t.m.bins[b].room {
		worth += t.rate[first+d] * float64(r)
	}
	return worth
}

// least returns what so many items of each kind cost at least.
func (t *tariff) least(counts []int) float64 {
	sum := 0.0
	for k, n := range counts {
		sum += t.value[k] * float64(n)
	}
	sum *= 1 - safety
	for _, b := range t.limited {
		sum -= max(t.held(b)*(1+safety)-t.price[b], 0) * float64(t.m.bins[b].left)
	}
	return max(sum, 0)
}

// worth returns what an item of the kind costs where it is cheapest, and where that is.
func (t *tariff) worth(k int) (least float64, target int32) {
	m := t.m
	least = math.Inf(1)
	t.sets[t.setOf[k]].each(func(a int) {
		v := 0.0
		for d, s := range m.sizeOf(k) {
			v += t.rate[a*m.dims+d] * float64(s)
		}
		if v < least {
			least, target = v, int32(a)
		}
	})
	return least, target
}
