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
	// cheapest is what a bin that costs nothing counts as where prices divide.
	cheapest = 1e-12
)

// tariff is what things are worth: a price for each dimension in each atom, at which no
// bin holds more than it costs, and from it the price of an item of each kind, which is
// that of the atom where it is cheapest.
type tariff struct {
	m      *model
	atoms  []atom
	atomOf []int32   // of each bin
	sets   []bitset  // the distinct sets of atoms where kinds may be
	setOf  []int32   // of each kind
	rate   []float64 // of dimension d in atom a at [a*dims+d]
	value  []float64 // of an item of each kind
	bound  float64   // the sum of all values
}

// atom is a set of bins that the same kinds may use.
type atom struct {
	sig  int32
	bins []int32
	room []int64 // the most that any of its bins holds of each dimension
}

// newTariff sorts out which kind may be where, and prices nothing yet.
func newTariff(m *model) *tariff {
	t := &tariff{m: m, atomOf: make([]int32, len(m.bins)), setOf: make([]int32, len(m.kinds)), value: make([]float64, len(m.kinds))}
	for i, b := range m.bins {
		a := slices.IndexFunc(t.atoms, func(a atom) bool { return a.sig == b.sig })
		if a < 0 {
			a = len(t.atoms)
			t.atoms = append(t.atoms, atom{sig: b.sig, room: make([]int64, m.dims)})
		}
		t.atomOf[i] = int32(a)
		t.atoms[a].bins = append(t.atoms[a].bins, int32(i))
		for d, r := range b.room {
			t.atoms[a].room[d] = max(t.atoms[a].room[d], r)
		}
	}
	var sets interned
	row := newBitset(len(t.atoms))
	for k := range m.kinds {
		clear(row)
		for a := range t.atoms {
			at := &t.atoms[a]
			if m.groups[m.kinds[k].group].has(int(at.bins[0])) && covers(at.room, m.sizeOf(k)) {
				row.set(a)
			}
		}
		n := sets.number(row)
		if int(n) == len(sets.sets)-1 && len(row) > 0 && &sets.sets[n][0] == &row[0] {
			row = newBitset(len(t.atoms))
		}
		t.setOf[k] = n
	}
	t.sets = sets.sets
	t.rate = make([]float64, len(t.atoms)*m.dims)
	return t
}

func (m *model) sizeOf(k int) []int64 { return m.size[k*m.dims : (k+1)*m.dims] }

// solve finds the rates at which all items together are worth most.
func (t *tariff) solve(price []float64) {
	m := t.m
	scale := make([]float64, m.dims) // a dimension's total need counts as one
	for d := range scale {
		scale[d] = 1 / float64(max(m.total[d], 1))
	}
	rows := len(t.atoms) * m.dims
	demand := make([]float64, len(t.sets)*m.dims)
	for k := range m.kinds {
		for d, s := range m.sizeOf(k) {
			demand[int(t.setOf[k])*m.dims+d] += float64(s) * float64(m.kinds[k].count) * scale[d]
		}
	}
	need := make([]float64, rows+len(t.sets))
	dearest := cheapest
	for i := range need {
		need[i] = nudge / float64(i+1)
		if i >= rows {
			need[i] = 1
		}
	}
	index, value := make([]int32, 0, m.dims+1), make([]float64, 0, m.dims+1)
	for i := range m.bins {
		dearest = max(dearest, price[i])
	}
	l := newLinear(need, 1e6)
	for i, b := range m.bins {
		index, value = index[:0], value[:0]
		for d, r := range b.room {
			index = append(index, t.atomOf[i]*int32(m.dims)+int32(d))
			value = append(value, float64(r)*scale[d])
		}
		l.add(price[i]/dearest, index, value)
	}
	for s, set := range t.sets {
		set.each(func(a int) {
			index, value = append(index[:0], int32(rows+s)), append(value[:0], 1)
			for d := range m.dims {
				if v := demand[s*m.dims+d]; v > 0 {
					index = append(index, int32(a*m.dims+d))
					value = append(value, -v)
				}
			}
			l.add(0, index, value)
		})
	}
	l.solve(50 * len(need))
	for a := range t.atoms {
		for d := range m.dims {
			t.rate[a*m.dims+d] = max(l.prices[a*m.dims+d], 0) * scale[d] * dearest
		}
	}
	t.settle(price)
}

// settle makes the rates valid, whatever they were, and as high as each atom's bins
// allow, and prices the kinds.
func (t *tariff) settle(price []float64) {
	m := t.m
	for a, at := range t.atoms {
		rate := t.rate[a*m.dims : (a+1)*m.dims]
		over := 0.0
		for _, b := range at.bins {
			held := 0.0
			for d, r := range m.bins[b].room {
				held += rate[d] * float64(r)
			}
			over = max(over, held/max(price[b], cheapest))
		}
		if over == 0 {
			continue
		}
		for d := range rate {
			rate[d] /= over * (1 + safety)
		}
	}
	t.bound = 0
	for k := range m.kinds {
		t.value[k] = t.worth(k)
		t.bound += t.value[k] * float64(m.kinds[k].count)
	}
	t.bound *= 1 - safety
}

// worth returns what an item of the kind costs where it is cheapest.
func (t *tariff) worth(k int) float64 {
	m, least := t.m, math.Inf(1)
	t.sets[t.setOf[k]].each(func(a int) {
		v := 0.0
		for d, s := range m.sizeOf(k) {
			v += t.rate[a*m.dims+d] * float64(s)
		}
		least = min(least, v)
	})
	return least
}
