package cover

import (
	"math"
	"slices"
)

// Dual ascent raises the bound of a tariff. The tariff's own program has one row of rates for each family, and shares out
// all kinds of a flow alike: with many kinds its bound is low, and its rates say little about where a kind is cheapest. Here
// each bin is a family of its own. All of its price is always shared out to its dimensions, so that the rates are valid after
// every step. A step finds out where each kind is cheapest. Then those dimensions of a bin get more of its price of which
// these kinds need most, and the others get less.

const (
	// ascentSteps is how many steps there are.
	ascentSteps = 400
	// ascentWork bounds them: it is how often the cost of a kind in a bin is worked out. There is no ascent if that is too
	// little for ascentFewest steps.
	ascentWork, ascentFewest = 30_000_000, 40
	// Not all of a kind is where it is cheapest: else the rates would jump. Where it is dearer by a certain part there is 1/e
	// as much of it. That part is ascentFirst in the first step, and falls to ascentLast in the last. What is dearer by
	// ascentNear times that part gets none.
	ascentFirst, ascentLast, ascentNear = 0.05, 0.0005, 8
	// ascentReach is by which part a bin may at most be dearer for a kind than the cheapest one, at the start, to be known to it.
	ascentReach = 0.5
	// ascentPace is how fast shares change, times that part.
	ascentPace = 20
	// ascentLasting is in which part of the steps, the last ones, it is noted how much of each kind is where: one in so many.
	ascentLasting = 4
	// ascentLeast is the least share of a dimension at the start.
	ascentLeast = 1e-3
)

// ascent is the work on one tariff.
type ascent struct {
	t     *tariff
	dims  int
	share []float64 // of dimension d in the price of bin b at [b*dims+d]
	most  []float64 // the shares of the best step
	asked []float64 // the worth of the room that kinds ask for, in the same order
	bins  []int32   // those where the first kind may be, then those of the second, and so on
	first []int32   // of each kind in bins, and where the last one ends
	size  []float64 // of an item in each of bins, by dimension, as part returns it
	cost  []float64 // of an item of the kind at hand in its bins
	items []float64 // of each of bins, how many were asked for there in the last steps
}

// ascend raises the bound, and returns how; nil: it did not. It does nothing where some bins are limited or have tolls.
func (t *tariff) ascend() *ascent {
	if len(t.limited) > 0 || len(t.cuts) > 0 {
		return nil
	}
	a := newAscent(t)
	for k := range t.m.kinds {
		if a.add(k); len(a.bins) > ascentWork/ascentFewest {
			return nil
		}
	}
	a.run(min(ascentSteps, ascentWork/max(len(a.bins), 1)))
	if next := a.tariff(); next.bound > t.bound {
		*t = *next
		return a
	}
	return nil
}

func newAscent(t *tariff) *ascent {
	n := len(t.m.bins)
	a := &ascent{t: t, dims: t.m.dims, share: make([]float64, n*t.m.dims), asked: make([]float64, n*t.m.dims), cost: make([]float64, n), first: []int32{0}}
	for b := range n {
		a.begin(b)
	}
	a.most = slices.Clone(a.share)
	return a
}

// add adds the bins where the next kind may be, but for those that are much dearer than the cheapest.
func (a *ascent) add(k int) {
	m, size, least := a.t.m, a.t.m.sizeOf(k), math.Inf(1)
	for b := range m.bins {
		a.cost[b] = math.Inf(1)
		if m.may(int32(k), int32(b)) && covers(m.bins[b].room, size) {
			a.cost[b] = a.costIn(b, size)
			least = min(least, a.cost[b])
		}
	}
	for b, cost := range a.cost {
		if cost <= least*(1+ascentReach) && !math.IsInf(cost, 1) {
			a.bins = append(a.bins, int32(b))
			for d, s := range size {
				a.size = append(a.size, a.part(b, d, s))
			}
		}
	}
	a.first = append(a.first, int32(len(a.bins)))
}

// begin shares the price of a bin out to its dimensions as the tariff does, about.
func (a *ascent) begin(b int) {
	share, sum := a.share[b*a.dims:][:a.dims], 0.0
	for d, r := range a.t.m.bins[b].room {
		share[d] = a.t.rate[int(a.t.familyOf[b])*a.dims+d] * float64(r)
		sum += share[d]
	}
	for d := range share {
		share[d] = (share[d]/max(sum, tiny) + ascentLeast) / (1 + ascentLeast*float64(a.dims))
	}
}

// part returns what a size would cost if the bin were worth nothing but its room in that dimension.
func (a *ascent) part(b, d int, size int64) float64 {
	return a.t.price[b] * float64(size) / max(float64(a.t.m.bins[b].room[d]), 1)
}

// costIn returns what an item of that size costs in a bin.
func (a *ascent) costIn(b int, size []int64) (cost float64) {
	for d, s := range size {
		cost += a.part(b, d, s) * a.share[b*a.dims+d]
	}
	return cost
}

// run does so many steps, and remembers the shares at which all items together cost most.
func (a *ascent) run(steps int) {
	most := 0.0
	a.items = make([]float64, len(a.bins))
	for step := range steps {
		if step == steps-max(steps/ascentLasting, 1) {
			clear(a.items)
		}
		near := ascentFirst * math.Pow(ascentLast/ascentFirst, float64(step)/float64(steps))
		clear(a.asked)
		sum := 0.0
		for k := range a.t.m.kinds {
			n := float64(a.t.m.kinds[k].count)
			sum += n * a.ask(k, n, near)
		}
		if sum > most {
			most = sum
			copy(a.most, a.share)
		}
		a.change(ascentPace * near)
	}
}

// ask asks for room for so many items of a kind, and returns what one costs where it is cheapest.
func (a *ascent) ask(k int, n, near float64) float64 {
	bins, size := a.bins[a.first[k]:a.first[k+1]], a.size[int(a.first[k])*a.dims:]
	cost, least := a.cost[:len(bins)], math.Inf(1)
	for i := range bins {
		share := a.share[int(bins[i])*a.dims:][:a.dims]
		sum := 0.0
		for d, s := range size[i*a.dims:][:a.dims] {
			sum += s * share[d]
		}
		cost[i] = sum
		least = min(least, sum)
	}
	if least < tiny {
		return 0 // what is free has no value
	}
	all := 0.0
	for i, c := range cost {
		if c <= least*(1+ascentNear*near) {
			cost[i] = math.Exp((1 - c/least) / near)
			all += cost[i]
		} else {
			cost[i] = 0
		}
	}
	for i, c := range cost {
		if c > 0 {
			a.items[int(a.first[k])+i] += n * c / all
			asked := a.asked[int(bins[i])*a.dims:][:a.dims]
			for d, s := range size[i*a.dims:][:a.dims] {
				asked[d] += n * c / all * s
			}
		}
	}
	return least
}

// change gives those dimensions of each bin more of its price that are asked for more than others.
func (a *ascent) change(pace float64) {
	for b := range a.t.m.bins {
		share, asked := a.share[b*a.dims:][:a.dims], a.asked[b*a.dims:][:a.dims]
		mean := 0.0
		for d, s := range share {
			mean += s * asked[d]
		}
		if mean <= 0 {
			continue
		}
		sum := 0.0
		for d := range share {
			share[d] = max(share[d]*math.Exp(max(-1, min(1, pace*(asked[d]/mean-1)))), safety)
			sum += share[d]
		}
		for d := range share {
			share[d] /= sum
		}
	}
}

// tariff returns the tariff at the best shares.
func (a *ascent) tariff() *tariff {
	m, t := a.t.m, a.t
	n := len(m.kinds)
	next := &tariff{
		m: m, price: t.price, familyOf: make([]int32, len(m.bins)), setOf: make([]int32, n), flowOf: make([]int32, n),
		value: make([]float64, n), target: make([]int32, n), used: t.used, toll: t.toll,
	}
	for b := range m.bins {
		next.familyOf[b] = int32(b)
		next.families = append(next.families, family{sig: m.bins[b].sig, bins: []int32{int32(b)}})
	}
	next.sort()
	for b := range m.bins {
		for d, r := range m.bins[b].room {
			next.rate[b*m.dims+d] = a.most[b*m.dims+d] * t.price[b] / max(float64(r), 1)
		}
	}
	next.converge()
	return next
}
