package cover

import (
	"cmp"
	"math"
	"slices"
)

// cut is a kind that needs many bins because few of it may share one. Each bin that it
// may be in is worth the toll to it, and each item pays its part.
type cut struct {
	kind int32
	toll float64
}

// cutsMax bounds the rows for kinds that need many bins.
const cutsMax = 12

// cuts returns for each group the kind that needs most bins.
func (m *model) cuts() []cut {
	most := make([]int32, len(m.groups))
	for i := range most {
		most[i] = -1
	}
	for k := range m.kinds {
		kind := &m.kinds[k]
		if kind.most >= kind.count {
			continue
		}
		if o := &most[kind.group]; *o < 0 || m.binsFor(*o) < m.binsFor(int32(k)) {
			*o = int32(k)
		}
	}
	var cuts []cut
	for _, k := range most {
		if k >= 0 {
			cuts = append(cuts, cut{kind: k})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return -cmp.Compare(m.binsFor(a.kind), m.binsFor(b.kind)) })
	return cuts[:min(len(cuts), cutsMax)]
}

// binsFor returns how many bins the kind needs at least, because of what one takes.
func (m *model) binsFor(k int32) float64 {
	return float64(m.kinds[k].count) / float64(m.kinds[k].most)
}

// may reports whether an item of the kind fits in the bin, were it empty.
func (m *model) may(k, b int32) bool {
	return m.groups[m.kinds[k].group].has(int(b)) && covers(m.bins[b].room, m.sizeOf(int(k)))
}

// convergeTolls lowers all tolls until no bin is worth more by them than it costs.
func (t *tariff) convergeTolls() {
	over := 1.0
	for range 2 {
		clear(t.toll)
		for c := range t.cuts {
			t.cuts[c].toll /= over
			for b := range t.toll {
				if t.m.may(t.cuts[c].kind, int32(b)) {
					t.toll[b] += t.cuts[c].toll
				}
			}
		}
		for b, toll := range t.toll {
			if t.m.bins[b].left != unlimited || toll == 0 {
				continue
			}
			if t.price[b] < tiny {
				over = math.Inf(1)
			}
			over = max(over, toll/max(t.price[b], tiny)*(1+safety))
		}
	}
}
