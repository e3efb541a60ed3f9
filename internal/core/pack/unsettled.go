package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// unsettled is a machine of which the cloud will decide what it is.
type unsettled struct {
	host   string
	at     int    // its pool's index in the model; -1: it is gone
	atoms  bitset // what it may become
	has    label.Requirements
	labels map[string]string // what is known already
}

// placeMemory is memory for places.
type placeMemory struct {
	domains slab[int32]
	flags   slab[bool]
	values  [][]string // of the place at hand, by key
	both    bitset     // of the value at hand
}

// placeOfUnsettled returns the place of a machine that may be in several domains.
func (s *solver) placeOfUnsettled(u *unsettled) topology.Place {
	keys, groups := s.ledger.Keys(), s.ledger.Groups()
	place := topology.Place{
		Domain: s.places.domains.take(len(keys)), Counts: s.places.flags.take(groups), Doubt: s.places.flags.take(groups),
	}
	if s.places.values == nil {
		s.places.values = make([][]string, len(keys))
	}
	values := s.places.values
	for k, key := range keys {
		values[k] = s.valuesOf(u, key, values[k][:0])
		switch len(values[k]) {
		case 0:
			place.Domain[k] = topology.None
		case 1:
			place.Domain[k] = s.ledger.Domain(k, values[k][0])
		default:
			place.Domain[k] = topology.Unsettled
		}
	}
	var anywhere [][]int32
	if slices.Contains(place.Domain, topology.Unsettled) {
		place.May = make([][]int32, groups)
		anywhere = make([][]int32, len(keys))
		for k := range keys {
			for _, v := range values[k] {
				if place.Domain[k] == topology.Unsettled {
					anywhere[k] = append(anywhere[k], s.ledger.Domain(k, v))
				}
			}
		}
	}
	known := u.at >= 0 && u.atoms.within(s.model.pools[u.at].allowed) // else the pool has changed since
	for g := range groups {
		spreading := s.ledger.IsSpreading(g)
		if place.Counts[g], place.Doubt[g] = !known || !spreading, !known && spreading; place.Counts[g] && place.May != nil {
			place.May[g] = anywhere[s.ledger.KeyOf(g)]
		}
	}
	if known {
		for i := range s.counted[u.at] {
			s.countOwners(u, &s.counted[u.at][i], values, &place)
		}
	}
	return place
}

// countOwners notes for the groups of some owners whether the machine counts, and in which
// domains if it is unsettled.
func (s *solver) countOwners(u *unsettled, o *owners, values [][]string, place *topology.Place) {
	some, notAll := o.in.admits(u.atoms, u.has)
	var may [][]int32
	if place.May != nil {
		may = make([][]int32, len(values))
	}
	for k, key := range s.ledger.Keys() {
		for _, v := range values[k] {
			if may != nil && some && place.Domain[k] == topology.Unsettled && s.countsAs(u, &o.in, key, v) {
				may[k] = append(may[k], s.ledger.Domain(k, v))
			}
		}
	}
	for _, g := range o.groups {
		if place.Counts[g], place.Doubt[g] = some, notAll; place.May != nil {
			place.May[g] = may[s.ledger.KeyOf(g)]
		}
	}
}

// valuesOf appends the values of a key that the machine may have.
func (s *solver) valuesOf(u *unsettled, key string, values []string) []string {
	value, known := u.labels[key]
	switch {
	case known:
		return append(values, value)
	case key == label.Hostname:
		return append(values, u.host)
	}
	want, ruled := u.has[key]
	if u.at >= 0 {
		if k, decided := s.model.pools[u.at].decided(key); decided {
			for len(s.places.both) < len(u.atoms) {
				s.places.both = append(s.places.both, 0)
			}
			both := s.places.both[:len(u.atoms)]
			for i, v := range k.values {
				if both.intersection(u.atoms, k.with[i]) && (!ruled || want.Allows(v)) {
					values = append(values, v)
				}
			}
			return values
		}
	}
	if want.Operator() == label.OpIn {
		return append(values, want.Values()...)
	}
	return values
}

// countsAs tells whether the machine may count for the owner of a group if it has the value.
func (s *solver) countsAs(u *unsettled, in *classIn, key, value string) bool {
	atoms := u.atoms
	if k, decided := s.model.pools[u.at].decided(key); decided {
		if i := slices.Index(k.values, value); i >= 0 {
			atoms = u.atoms.clone()
			atoms.and(k.with[i])
		}
	}
	some, _ := in.admits(atoms, u.has.With(key, label.In(value)))
	return some
}
