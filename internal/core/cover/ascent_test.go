package cover

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAscentKeepsTariffsValid: whatever the problem, an ascent lowers no bound, and at the rates that it finds no bin holds
// more than it costs and no item is worth more than its room in any bin where it may be.
func TestAscentKeepsTariffsValid(t *testing.T) {
	t.Parallel()
	raised := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		if rapid.IntRange(0, 3).Draw(t, "plain") > 0 { // else ascents are seldom
			for i := range p.Bins {
				p.Bins[i].Left = 0
			}
			for i := range p.Classes {
				p.Classes[i].PerBin, p.Classes[i].Bins = 0, []uint64{1<<len(p.Bins) - 1}
			}
		}
		m := newSolver(p).m
		price := make([]float64, len(m.bins))
		for i, b := range m.bins {
			price[i] = b.price
		}
		tar := newTariff(m, price)
		before := tar.bound
		a := tar.ascend()
		if a == nil {
			return
		}
		raised++
		if tar.bound <= before {
			t.Errorf("the bound is %v, before %v", tar.bound, before)
		}
		waiting := make([]int, len(m.kinds))
		for k := range m.kinds {
			waiting[k] = m.kinds[k].count
		}
		for b, quota := range a.quotas() {
			for _, it := range quota {
				if waiting[it.Class] -= it.N; it.N <= 0 || !m.may(it.Class, int32(b)) || !covers(m.bins[b].room, m.sizeOf(int(it.Class))) {
					t.Errorf("quota of %d items of kind %d in bin %d", it.N, it.Class, b)
				}
			}
		}
		for k, n := range waiting {
			if n != 0 && a.first[k] < a.first[k+1] {
				t.Errorf("%d items of kind %d have no quota", n, k)
			}
		}
		for b := range m.bins {
			if held := tar.held(int32(b)); held > price[b]*(1+1e-9) {
				t.Errorf("bin %d costs %v and holds %v", b, price[b], held)
			}
		}
		for k := range m.kinds {
			for b := range m.bins {
				worth := 0.0
				for d, s := range m.sizeOf(k) {
					worth += tar.rate[int(tar.familyOf[b])*m.dims+d] * float64(s)
				}
				if m.may(int32(k), int32(b)) && covers(m.bins[b].room, m.sizeOf(k)) && tar.value[k] > worth*(1+1e-9) {
					t.Errorf("kind %d is worth %v, its room in bin %d %v", k, tar.value[k], b, worth)
				}
			}
		}
	})
	t.Logf("%d bounds were raised", raised)
}

// TestAscentPaysWithManyKinds has bounds of many kinds rise, and packings cost less that prefer the bins where items are
// cheapest.
func TestAscentPaysWithManyKinds(t *testing.T) {
	t.Parallel()
	const seeds = 10
	bound, price := 0.0, 0.0
	for seed := range uint64(seeds) {
		e := Effort{Passes: 3, Improve: 60}
		p := manyKinds(seed)
		for i, c := range p.Classes {
			if c.Size[1] > 4*c.Size[0] {
				p.Classes[i].Count *= 20
			}
		}
		with, without := newSolver(p), newSolver(p)
		for _, s := range []*solver{with, without} {
			s.correct(e.Passes)
		}
		if with.ascend() == nil {
			t.Fatalf("seed %d: the bound is not raised", seed)
		}
		with.correct(e.Passes)
		for _, s := range []*solver{with, without} {
			s.improve(e)
		}
		bound += with.tariff.bound / without.tariff.bound / seeds
		price += with.best.cost / without.best.cost / seeds
	}
	t.Logf("bounds are %.4f of those before, prices %.4f", bound, price)
	if bound < 1.085 || price > 0.99 {
		t.Error("an ascent does not pay")
	}
}

// TestQuotasPayWithManyItems has bins that are filled by quotas, in balance, leave less than those filled by value for money.
func TestQuotasPayWithManyItems(t *testing.T) {
	t.Parallel()
	const seeds = 10
	price := 0.0
	for seed := range uint64(seeds) {
		p := manyKinds(seed)
		for i := range p.Classes {
			p.Classes[i].Count = 1 + i*i/10
		}
		s := newSolver(p)
		s.correct(3)
		a := s.ascend()
		if a == nil {
			t.Fatalf("seed %d: the bound is not raised", seed)
		}
		s.correct(3)
		before := s.best.cost
		s.packByQuota(a)
		price += s.best.cost / before / seeds
	}
	t.Logf("prices are %.4f of those before", price)
	if price > 0.995 {
		t.Error("quotas do not pay")
	}
}

// TestFillingsAreOfWhatIsCheapestThere: of two kinds that are alike in all else a filling takes the one that is cheapest in
// this bin, if that counts.
func TestFillingsAreOfWhatIsCheapestThere(t *testing.T) {
	t.Parallel()
	s := newSolver(&Problem{
		Dims:    2,
		Bins:    []Bin{{Capacity: []int64{10, 10}, Price: 1}},
		Classes: []Class{{Size: []int64{3, 2}, Count: 5, Bins: []uint64{1}}, {Size: []int64{2, 3}, Count: 5, Bins: []uint64{1}}},
	})
	f := s.greedy.filler
	f.rate, f.familyOf, f.even = []float64{0.05, 0.05}, []int32{0}, 1
	for k := range f.value {
		f.value[k], f.left[k] = 0.25, 5
	}
	for cheaper := range int32(2) {
		f.least = []float64{0.25, 0.25}
		f.least[1-cheaper] = 0.2 // the other one is cheaper elsewhere
		for _, tc := range []struct {
			strict float64
			first  int32
		}{{0, 0}, {1, cheaper}, {2, cheaper}} {
			f.strict = tc.strict
			items, _ := f.fill(0, []int32{0, 1})
			if len(items) == 0 || items[0].Class != tc.first {
				t.Errorf("strict %v: %v, kind %d is to come first", tc.strict, items, tc.first)
			}
		}
	}
}

// TestSearchedTwiceIsNeverDearer: searched with both tariffs, a packing costs no more than searched with the first one alone.
func TestSearchedTwiceIsNeverDearer(t *testing.T) {
	t.Parallel()
	cheaper := 0
	for seed := range uint64(20) {
		p := manyKinds(seed)
		p.BinFee = 10
		e := Effort{Passes: 2, Improve: 10, Ascend: true, Twice: true}
		once := newSolver(p)
		once.correct(e.Passes)
		once.improve(e)
		twice := Solve(p, e)
		check(t, p, twice)
		if without := once.withoutFees(&once.best); twice.Price > without {
			t.Errorf("seed %d: %v, with the first tariff alone %v", seed, twice.Price, without)
		} else if twice.Price < without*(1-1e-3) {
			cheaper++
		}
	}
	if cheaper < 10 {
		t.Errorf("searching twice pays for %d of 20 seeds", cheaper)
	}
}
