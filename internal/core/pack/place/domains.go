package place

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// KeepDomains fixes planned nodes whose domain matters to none of their own pods to a domain that
// exists already, where a spread of other pods of this plan counts the nodes. In a new domain
// they would have no pod of that spread, and its pods elsewhere would exceed the skew.
func (s *State) KeepDomains() {
	s.NotePlanned()
	keys := s.Topology.Ledger.Keys()
	var groups []int // that have a domain to keep out of
	s.Topology.Ledger.Spreading(func(g, owner int, _, _ bool) {
		if owner < len(s.Classes) && !s.Topology.Ledger.Everywhere(g) {
			groups = append(groups, g)
		}
	})
	for _, b := range s.Planned {
		if !b.Refusal.IsYes() {
			continue
		}
		for _, g := range groups {
			if k := s.Topology.Ledger.KeyOf(g); b.Domains.Counts[g] && b.Domains.Domain[k] == topology.Open {
				s.keepDomain(b, g, k, keys[k])
			}
		}
	}
}

func (s *State) keepDomain(b *model.PlannedNode, g, k int, key string) {
	choices := b.Pool.Choices(key, b.UsableOfferings(), b.Open[key].Values())
	there := slices.DeleteFunc(slices.Clone(choices), func(c model.DomainChoice) bool {
		return !s.Topology.Ledger.IsPresent(g, s.Topology.Ledger.Domain(k, c.Value)) || !b.EnoughWith(c.Offerings, label.Requirements{key: label.In(c.Value)})
	})
	if len(there) == 0 || len(there) == len(choices) {
		return
	}
	best := slices.MinFunc(there, func(x, y model.DomainChoice) int {
		return cmp.Or(cmp.Compare(x.Price, y.Price), cmp.Compare(x.Value, y.Value))
	})
	s.Topology.setDomain(b, k, s.Topology.Ledger.Domain(k, best.Value))
	b.Requirements = append(b.Requirements, label.Requirements{key: label.In(best.Value)})
	if best.Offerings != nil {
		b.Keep(best.Offerings)
		s.Topology.CountSpreads(b)
	}
	s.Topology.Ledger.Present(&b.Domains)
}

// NotePlanned notes the domains of planned nodes, also of those whose pods no rule concerns. A node that is refused has
// domains of a ledger before the present one, perhaps.
func (s *State) NotePlanned() {
	for _, b := range s.Planned {
		if b.Refusal.IsYes() && len(b.Domains.Domain) > 0 {
			s.Topology.Ledger.Present(&b.Domains)
		}
	}
}
