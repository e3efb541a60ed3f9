package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// New states the NodePools of a snapshot in the solver's terms. This work, and all that is done
// with the model later, counts on the meter.
func New(snap *cluster.Snapshot, space quantity.Space, opts Options, meter *effort.Meter) *Model {
	m := &Model{Snapshot: snap, Options: opts, Space: space, Meter: meter, Supplies: cluster.SuppliesLeft(snap).Left}
	for _, p := range byWeight(snap.Pools) {
		m.Pools = append(m.Pools, newPool(m, p))
	}
	return m
}

// SpaceOf returns every resource that a pending pod or a DaemonSet asks for, or that a limit
// counts. The other resources of nodes do not matter.
func SpaceOf(snap *cluster.Snapshot) quantity.Space {
	lists := []quantity.List{{quantity.CPU: 0, quantity.Memory: 0, quantity.Pods: 0}}
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		if sh := snap.Pending[i].Constraints; !seen[sh] {
			seen[sh] = true
			lists = append(lists, sh.Requests)
		}
	}
	for i := range snap.Daemons {
		lists = append(lists, snap.Daemons[i].Constraints.Requests)
	}
	for i := range snap.Pools {
		lists = append(lists, snap.Pools[i].Limits)
	}
	return quantity.SpaceOf(lists...)
}

// byWeight returns the pools, most weight first; of equals the later name first, as the
// API promises.
func byWeight(pools []cluster.Pool) []*cluster.Pool {
	sorted := make([]*cluster.Pool, len(pools))
	for i := range pools {
		sorted[i] = &pools[i]
	}
	slices.SortFunc(sorted, func(a, b *cluster.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	return sorted
}

func newPool(m *Model, pool *cluster.Pool) *Pool {
	snap, space := m.Snapshot, m.Space
	p := &Pool{NodePool: pool, meter: m.Meter, wellKnown: snap.WellKnown, Space: space, relax: m.Options.MinValuesBestEffort}
	p.addTypes(p.offeringsWithin(snap))
	if parts := p.splitByDaemons(snap.Daemons); parts != nil {
		p.addTypes(parts)
		p.parted = true
	}
	p.Launchable = p.Allowed.Clone()
	for t := range p.Types {
		tm := &p.Types[t]
		tm.priceMin = math.Inf(1)
		for a := tm.First; a < tm.End; a++ {
			if !m.isLaunchable(p.Offerings[a]) {
				p.Launchable[a>>6] &^= 1 << (a & 63)
			} else if p.Launchable.Has(a) {
				tm.priceMin = min(tm.priceMin, p.Offerings[a].Cost())
			}
		}
	}
	p.reserveForDaemons(snap.Daemons)
	p.indexMinValues()
	p.countLimits(snap)
	p.order()
	p.LargestFree = make(quantity.Vector, len(space))
	for t := range p.Types {
		p.all = append(p.all, int32(t))
		Raise(p.LargestFree, p.Types[t].Free)
	}
	return p
}

// order sorts the types by name and by price, so that it is not done for each planned node.
func (p *Pool) order() {
	for t := range p.Types {
		p.byName = append(p.byName, int32(t))
	}
	slices.SortStableFunc(p.byName, func(x, y int32) int { return cmp.Compare(p.Types[x].Name, p.Types[y].Name) })
	p.byPrice = slices.Clone(p.byName)
	slices.SortStableFunc(p.byPrice, func(x, y int32) int { return cmp.Compare(p.Types[x].priceMin, p.Types[y].priceMin) })
}

// reserveForDaemons takes from each type what the DaemonSet pods that would run on it need.
func (p *Pool) reserveForDaemons(daemons []cluster.Daemon) {
	var memory Slab[int64]
	within := 0
	for t := range p.Types {
		tm := &p.Types[t]
		tm.Free = memory.Take(len(p.Space))
		tm.FillRoom(p.Space, tm.Free)
		if p.Allowed.AnyIn(tm.First, tm.End) {
			within++
		}
	}
	p.daemonsAlike = true
	sums := []quantity.List{{}} // of daemons that types have
	sum := make([]int, len(p.Types))
	for i := range daemons {
		sh := daemons[i].Constraints
		in := p.Admit(sh, nil)
		need := p.Space.Vector(sh.Requests)
		on := 0
		more := make([]int, len(sums)) // by sum, that with this daemon; 0: not yet
		for t := range p.Types {
			tm := &p.Types[t]
			for _, term := range in.Terms {
				if term.Offerings.AnyIn(tm.First, tm.End) {
					tm.Free.AddN(need, -1)
					on++
					if more[sum[t]] == 0 {
						more[sum[t]] = len(sums)
						sums = append(sums, sums[sum[t]].Plus(sh.Requests))
					}
					sum[t] = more[sum[t]]
					tm.Ports = append(tm.Ports, sh.Ports...)
					break
				}
			}
		}
		p.daemonsAlike = p.daemonsAlike && (on == 0 || on == within)
	}
	for t := range p.Types {
		p.Types[t].daemons = sums[sum[t]]
	}
}

func (p *Pool) indexMinValues() {
	for _, key := range p.NodePool.Requirements.Keys() {
		q := p.NodePool.Requirements[key]
		if q.MinValues == 0 {
			continue
		}
		rule := minValuesRule{Key: key, Need: q.MinValues}
		at := map[string]int{}
		for t := range p.Types {
			for _, v := range p.Types[t].Requirements[key].Values() {
				if _, ok := at[v]; !ok && q.Allows(v) {
					at[v] = len(at)
					rule.values = append(rule.values, v)
				}
			}
		}
		for t := range p.Types {
			has := NewBitset(len(at))
			for _, v := range p.Types[t].Requirements[key].Values() {
				if i, ok := at[v]; ok {
					has.Set(i)
				}
			}
			rule.has = append(rule.has, has)
		}
		p.MinValues = append(p.MinValues, rule)
	}
}
