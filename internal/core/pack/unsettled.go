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

// placeOfUnsettled returns the place of a machine that may be in several domains.
func (s *solver) placeOfUnsettled(u *unsettled) topology.Place {
	keys, groups := s.ledger.Keys(), s.ledger.Groups()
	place := topology.Place{
		Domain: make([]int32, len(keys)), May: make([][]int32, groups), Counts: make([]bool, groups), Doubt: make([]bool, groups),
	}
	values := make([][]string, len(keys))
	for k, key := range keys {
		values[k] = s.valuesOf(u, key)
		switch len(values[k]) {
		case 0:
			place.Domain[k] = topology.None
		case 1:
			place.Domain[k] = s.ledger.Domain(k, values[k][0])
		default:
			place.Domain[k] = topology.Unsettled
		}
	}
	known := u.at >= 0 && u.atoms.within(s.model.pools[u.at].allowed) // else the pool has changed since
	for g := range groups {
		k := s.ledger.KeyOf(g)
		var in *classIn
		if place.Counts[g], place.Doubt[g] = true, s.ledger.IsSpreading(g); known && place.Doubt[g] {
			in = s.counted[u.at][g]
			place.Counts[g], place.Doubt[g] = in.admits(u.atoms, u.has)
		}
		if place.Domain[k] != topology.Unsettled || !place.Counts[g] {
			continue
		}
		for _, v := range values[k] {
			if in == nil || s.countsAs(u, in, keys[k], v) {
				place.May[g] = append(place.May[g], s.ledger.Domain(k, v))
			}
		}
	}
	return place
}

// valuesOf returns the values of a key that the machine may have.
func (s *solver) valuesOf(u *unsettled, key string) (values []string) {
	value, known := u.labels[key]
	switch {
	case known:
		return []string{value}
	case key == label.Hostname:
		return []string{u.host}
	}
	want, ruled := u.has[key]
	if u.at >= 0 {
		if !ruled {
			want, ruled = s.model.pools[u.at].pool.Requirements[key]
		}
		if k, decided := s.model.pools[u.at].decided(key); decided {
			both := newBitset(k.width)
			for i, v := range k.values {
				if both.intersection(u.atoms, k.with[i]) && (!ruled || want.Allows(v)) {
					values = append(values, v)
				}
			}
			return values
		}
	}
	if want.Operator() == label.OpIn {
		return want.Values()
	}
	return nil
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
