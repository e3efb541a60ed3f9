package place

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Undetermined is a node of which the cloud has yet to decide what it is.
type Undetermined struct {
	Host         string
	PoolIndex    int          // its pool's index in the model; -1: the pool is gone
	Offerings    model.Bitset // what it may become
	Requirements label.Requirements
	labels       map[string]string // what is known already
}

// DomainsOfUndetermined returns the domains of a node that may be in several of one key.
func (s *Topology) DomainsOfUndetermined(u *Undetermined) topology.Place {
	keys, groups := s.Ledger.Keys(), s.Ledger.Groups()
	place := topology.Place{
		Domain: s.places.domains.Take(len(keys)), Counts: s.places.flags.Take(groups), Doubt: s.places.flags.Take(groups),
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
			place.Domain[k] = s.Ledger.Domain(k, values[k][0])
		default:
			place.Domain[k] = topology.Undetermined
		}
	}
	var anywhere [][]int32
	if slices.Contains(place.Domain, topology.Undetermined) {
		place.May = make([][]int32, groups)
		anywhere = make([][]int32, len(keys))
		for k := range keys {
			for _, v := range values[k] {
				if place.Domain[k] == topology.Undetermined {
					anywhere[k] = append(anywhere[k], s.Ledger.Domain(k, v))
				}
			}
		}
	}
	known := u.PoolIndex >= 0 && u.Offerings.Within(s.Model.Pools[u.PoolIndex].Allowed) // else the pool has changed since
	for g := range groups {
		spreading := s.Ledger.IsSpreading(g)
		if place.Counts[g], place.Doubt[g] = !known || !spreading, !known && spreading; place.Counts[g] && place.May != nil {
			place.May[g] = anywhere[s.Ledger.KeyOf(g)]
		}
	}
	if known {
		for i := range s.SpreadOwners[u.PoolIndex] {
			s.countOwners(u, &s.SpreadOwners[u.PoolIndex][i], values, &place)
		}
	}
	return place
}

// countOwners notes for the groups of some owners whether the node counts, and in which
// domains if it is undetermined.
func (s *Topology) countOwners(u *Undetermined, o *SpreadOwners, values [][]string, place *topology.Place) {
	some, notAll := o.Admitted.Allows(u.Offerings, u.Requirements)
	var may [][]int32
	if place.May != nil {
		may = make([][]int32, len(values))
	}
	for k, key := range s.Ledger.Keys() {
		for _, v := range values[k] {
			if may != nil && some && place.Domain[k] == topology.Undetermined && s.countsAs(u, &o.Admitted, key, v) {
				may[k] = append(may[k], s.Ledger.Domain(k, v))
			}
		}
	}
	for _, g := range o.Groups {
		if place.Counts[g], place.Doubt[g] = some, notAll; place.May != nil {
			place.May[g] = may[s.Ledger.KeyOf(g)]
		}
	}
}

// valuesOf appends the values of a key that the node may have.
func (s *Topology) valuesOf(u *Undetermined, key string, values []string) []string {
	value, known := u.labels[key]
	switch {
	case known:
		return append(values, value)
	case key == label.Hostname:
		return append(values, u.Host)
	}
	want, ruled := u.Requirements[key]
	if u.PoolIndex >= 0 {
		if k, decided := s.Model.Pools[u.PoolIndex].Label(key); decided {
			for len(s.places.both) < len(u.Offerings) {
				s.places.both = append(s.places.both, 0)
			}
			both := s.places.both[:len(u.Offerings)]
			for i, v := range k.Values {
				if both.Intersection(u.Offerings, k.Offerings[i]) && (!ruled || want.Allows(v)) {
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

// countsAs reports whether the node may count for the owner of a group if it has the value.
func (s *Topology) countsAs(u *Undetermined, in *model.Admitted, key, value string) bool {
	offerings := u.Offerings
	if k, decided := s.Model.Pools[u.PoolIndex].Label(key); decided {
		if i := slices.Index(k.Values, value); i >= 0 {
			offerings = u.Offerings.Clone()
			offerings.And(k.Offerings[i])
		}
	}
	some, _ := in.Allows(offerings, u.Requirements.With(key, label.In(value)))
	return some
}
