package pack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// This file is for daemons that rules of pods see, by a selector that selects them or by
// a rule of their own. A machine that is new brings its daemons, so they count where it
// is from the start. Mostly there are none, and all this costs nothing.

// visibleDaemon is a daemon that some rule sees.
type visibleDaemon struct {
	name  string
	shape *cluster.Shape
	class int      // in the ledger
	on    []bitset // by pool: the types that carry it
}

// company is the visible daemons of a machine to be bought. Types may differ in them: then
// it is open until a pod for which it matters comes.
type company struct {
	settled bool
	daemons []int // indexes into solver.visible
}

// way is one company that a machine could have, and the atoms with which it has it.
type way struct {
	daemons []int
	atoms   bitset
}

// findVisible finds the daemons that rules see. Only classes that have a part in those rules
// settle where a machine is; for what others leave open, uphold asks the rules once more. If
// every class settled it, one pod with a rule on instance types could make all machines small.
func (s *solver) findVisible() {
	first := len(s.ledger.Shapes()) - len(s.snap.Daemons)
	for i := range s.snap.Daemons {
		v := visibleDaemon{name: s.snap.Daemons[i].Name, shape: s.snap.Daemons[i].Shape, class: first + i}
		if len(s.ledger.KeysOf(v.class)) == 0 {
			continue
		}
		for _, pool := range s.model.pools {
			on := newBitset(len(pool.types))
			for _, term := range pool.admit(v.shape, nil).terms {
				for t := range pool.types {
					if term.atoms.anyIn(pool.types[t].first, pool.types[t].end) {
						on.set(t)
					}
				}
			}
			v.on = append(v.on, on)
		}
		s.visible = append(s.visible, v)
	}
}

// expect counts the visible daemons that are yet to come to a machine that is starting.
func (s *solver) expect(n *cluster.Node, place *topology.Place) {
	if n.Initialised || n.Leaving {
		return
	}
	for i := range s.visible {
		v := &s.visible[i]
		comes := fit.Tolerated(v.shape.Tolerations, n.Taints) && fit.Matches(v.shape.Terms, n.Labels)
		if n.Open != nil {
			comes = s.mayCome(v, n)
		}
		if comes && !slices.Contains(n.Daemons, v.name) {
			s.ledger.Count(v.class, place, 1, 0)
		}
	}
}

// mayCome tells whether some type that an open claim may become carries the daemon.
func (s *solver) mayCome(v *visibleDaemon, n *cluster.Node) bool {
	at := slices.IndexFunc(s.model.pools, func(p *poolModel) bool { return p.pool.Name == n.Pool })
	return at >= 0 && slices.ContainsFunc(s.model.pools[at].typesNamed(n.Open.Types), func(t int32) bool { return v.on[at].has(int(t)) })
}

// companies returns the companies that the machine could have with these atoms, in the
// order of the types.
func (s *solver) companies(b *launchBin, atoms bitset) []way {
	if len(s.visible) == 0 {
		return []way{{atoms: atoms}}
	}
	var ways []way
	for _, t := range b.types {
		tm := &b.pool.types[t]
		if !atoms.anyIn(tm.first, tm.end) {
			continue
		}
		var daemons []int
		for i := range s.visible {
			if s.visible[i].on[b.at].has(int(t)) {
				daemons = append(daemons, i)
			}
		}
		at := slices.IndexFunc(ways, func(w way) bool { return slices.Equal(w.daemons, daemons) })
		if at < 0 {
			at = len(ways)
			ways = append(ways, way{daemons, newBitset(len(b.pool.atoms))})
		}
		for a := tm.first; a < tm.end; a++ {
			if atoms.has(a) {
				ways[at].atoms.set(a)
			}
		}
	}
	return ways
}

// settleCompany decides which visible daemons come with the machine, and counts them.
func (s *solver) settleCompany(b *launchBin, w way) {
	b.company = company{settled: true, daemons: w.daemons}
	for _, d := range b.company.daemons {
		s.ledger.Count(s.visible[d].class, &b.place, 1, 0)
	}
}

// arrivals returns the visible daemons that come with the machine, or may come.
func (s *solver) arrivals(b *launchBin) []int {
	if b.company.settled {
		return b.company.daemons
	}
	var some []int
	for _, w := range s.companies(b, b.aliveIn(b.scratch)) {
		some = append(some, w.daemons...)
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// depart takes back what settleCompany did.
func (s *solver) depart(b *launchBin) {
	for _, d := range b.company.daemons {
		s.ledger.Count(s.visible[d].class, &b.place, -1, 0)
	}
	b.company = company{}
}

// settleDomain decides in which domain of a key the machine is; its company is there too.
func (s *solver) settleDomain(b *launchBin, key int, domain int32) {
	for _, d := range b.company.daemons {
		s.ledger.CountUnder(s.visible[d].class, &b.place, key, -1)
	}
	b.place.Domain[key] = domain
	for _, d := range b.company.daemons {
		s.ledger.CountUnder(s.visible[d].class, &b.place, key, 1)
	}
}

// companyWelcome tells whether the daemons that come along break no rule of others.
func (s *solver) companyWelcome(b *launchBin) bool {
	return !slices.ContainsFunc(b.company.daemons, func(d int) bool { return !s.ledger.Welcome(s.visible[d].class, &b.place) })
}

// brings returns how many pods that count in a group come at least with a machine of a
// pool that has some of the atoms, and some of those within, if given.
func (s *solver) brings(group, at int, atoms, within bitset) int32 {
	if len(s.visible) == 0 {
		return 0
	}
	least := int32(math.MaxInt32)
	both := atoms.clone()
	if within != nil {
		both.and(within)
	}
	both.and(s.model.pools[at].buyable)
	for t := range s.model.pools[at].types {
		if tm := &s.model.pools[at].types[t]; !both.anyIn(tm.first, tm.end) {
			continue
		}
		n := int32(0)
		for i := range s.visible {
			if v := &s.visible[i]; v.on[at].has(t) && s.ledger.Sees(group, v.class) {
				n++
			}
		}
		least = min(least, n)
	}
	if least == math.MaxInt32 {
		return 0
	}
	return least
}
