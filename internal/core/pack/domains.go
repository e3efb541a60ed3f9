package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// keepDomains settles launches whose domain matters to none of their own pods on one that
// is there already, where a spread of other pods of this plan counts them. In another they
// would open a domain with no pod in it, and what was planned would be too much elsewhere.
func (s *solver) keepDomains() {
	s.noteLaunches()
	keys := s.ledger.Keys()
	var groups []int // that have a domain to keep out of
	s.ledger.Spreading(func(g, owner int, _, _ bool) {
		if owner < len(s.classes) && !s.ledger.Everywhere(g) {
			groups = append(groups, g)
		}
	})
	for _, b := range s.launches {
		for _, g := range groups {
			if k := s.ledger.KeyOf(g); b.place.Counts[g] && b.place.Domain[k] == topology.Open {
				s.keepDomain(b, g, k, keys[k])
			}
		}
	}
}

func (s *solver) keepDomain(b *launchBin, g, k int, key string) {
	choices := b.pool.choices(key, b.alive(), b.open[key].Values())
	there := slices.DeleteFunc(slices.Clone(choices), func(c choice) bool {
		return !s.ledger.IsPresent(g, s.ledger.Domain(k, c.value)) || !b.enoughWith(c.atoms)
	})
	if len(there) == 0 || len(there) == len(choices) {
		return
	}
	best := slices.MinFunc(there, func(x, y choice) int { return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(x.value, y.value)) })
	s.settleDomain(b, k, s.ledger.Domain(k, best.value))
	b.terms = append(b.terms, label.Requirements{key: label.In(best.value)})
	if best.atoms != nil {
		b.keep(best.atoms)
		s.recount(b)
	}
	s.ledger.Present(&b.place)
}

// alive returns the atoms of the types that are left.
func (b *launchBin) alive() bitset { return b.aliveIn(newBitset(len(b.pool.atoms))) }

// aliveIn is alive that writes to a set.
func (b *launchBin) aliveIn(alive bitset) bitset {
	clear(alive)
	for _, t := range b.types {
		for a := b.pool.types[t].first; a < b.pool.types[t].end; a++ {
			if b.atoms.has(a) {
				alive.set(a)
			}
		}
	}
	return alive
}

// noteLaunches notes where the launches are that are settled, also those whose pods nobody minds.
func (s *solver) noteLaunches() {
	for _, b := range s.launches {
		if len(b.place.Domain) > 0 {
			s.ledger.Present(&b.place)
		}
	}
}

// enoughWith tells whether minValues still holds with these atoms alone; nil: all.
func (b *launchBin) enoughWith(atoms bitset) bool {
	if atoms == nil || len(b.minimum) == 0 {
		return true
	}
	var left []int32
	for _, t := range b.types {
		if b.scratch.intersection(b.atoms, atoms) && b.scratch.anyIn(b.pool.types[t].first, b.pool.types[t].end) {
			left = append(left, t)
		}
	}
	for i := range b.minimum {
		if b.pool.minValues[i].offered(left) < b.minimum[i] {
			return false
		}
	}
	return true
}
