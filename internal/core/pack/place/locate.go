package place

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// DomainsOf returns the domains of a node of the snapshot.
func (s *Topology) DomainsOf(n *cluster.Node) topology.Place {
	if n.InFlight != nil {
		return s.domainsOfInFlight(n)
	}
	place := s.newDomains()
	s.locateNode(n, &place, true)
	return place
}

// locateNode writes the domains of a node that has a Node object, as far as rules need them. counts:
// the node has pods that count, or may get some. Of other nodes only spreads need the domains.
func (s *Topology) locateNode(n *cluster.Node, place *topology.Place, counts bool) {
	for k, key := range s.Ledger.Keys() {
		place.Domain[k] = topology.None
		if !s.Ledger.AsksOf(k) || !counts && len(s.Ledger.Spreads(k)) == 0 {
			continue
		}
		value, ok := n.Labels[key]
		if key == label.Hostname && !ok {
			value, ok = n.Name, true
		}
		if ok {
			place.Domain[k] = s.Ledger.Domain(k, value)
		}
	}
	for i := range s.watchers {
		w := &s.watchers[i]
		counts := (w.terms == nil || fit.Matches(w.terms, n.Labels)) &&
			(!w.honorTaints || fit.Tolerated(w.tolerations, n.Taints))
		for _, g := range w.groups {
			place.Counts[g] = counts
		}
	}
}

// findWatchers finds out what nodes must be to count in spreads. That differs for few owners.
func (s *Topology) findWatchers() {
	constraintSets, asked := s.Ledger.Constraints(), make([]bool, s.Ledger.Groups())
	for k := range s.Ledger.Keys() {
		for _, g := range s.Ledger.Spreads(k) {
			asked[g] = true
		}
	}
	s.Ledger.Spreading(func(g, owner int, ignoreAffinity, honorTaints bool) {
		if !asked[g] {
			return
		}
		w := spreadWatcher{honorTaints: honorTaints}
		if w.terms = constraintSets[owner].CountedTerms(); ignoreAffinity || model.AnyEmpty(w.terms) {
			w.terms = nil
		}
		if honorTaints {
			w.tolerations = constraintSets[owner].Tolerations
		}
		recent := s.watchers[max(0, len(s.watchers)-model.ComparedMax):]
		at := slices.IndexFunc(recent, func(o spreadWatcher) bool {
			return o.honorTaints == w.honorTaints && slices.Equal(o.tolerations, w.tolerations) && slices.EqualFunc(o.terms, w.terms, label.Requirements.Equal)
		})
		if at < 0 {
			s.watchers = append(s.watchers, w)
			at, recent = 0, s.watchers[len(s.watchers)-1:]
		}
		recent[at].groups = append(recent[at].groups, g)
	})
}

// domainsOfInFlight returns the domains of a NodeClaim for which the cloud has not answered: it
// may be in each domain that its requirements allow.
func (s *Topology) domainsOfInFlight(n *cluster.Node) topology.Place {
	u := Undetermined{Host: n.Name, Requirements: n.InFlight.Requirements, labels: n.Labels, PoolIndex: slices.IndexFunc(s.Model.Pools, func(p *model.Pool) bool { return p.NodePool.Name == n.Pool })}
	if u.PoolIndex >= 0 {
		u.Offerings, _, _ = s.Model.Pools[u.PoolIndex].Match(n.InFlight.Requirements, true)
	}
	return s.DomainsOfUndetermined(&u)
}

// AdmitOwners notes, for each NodePool, what the owner of each spreading group admits of it.
func (s *Topology) AdmitOwners() {
	s.findWatchers()
	constraintSets := s.Ledger.Constraints()
	for _, pool := range s.Model.Pools {
		var admitted []SpreadOwners
		s.Ledger.Spreading(func(g, owner int, ignoreAffinity, honorTaints bool) {
			if honorTaints && !fit.Tolerated(constraintSets[owner].Tolerations, pool.NodePool.Taints) {
				return
			}
			terms := constraintSets[owner].CountedTerms()
			if ignoreAffinity {
				terms = nil
			}
			recent := max(0, len(admitted)-model.ComparedMax)
			at := slices.IndexFunc(admitted[recent:], func(o SpreadOwners) bool { return slices.EqualFunc(o.terms, terms, label.Requirements.Equal) })
			if at < 0 {
				at = len(admitted) - recent
				in := model.Admitted{Terms: []model.AdmittedTerm{{Offerings: model.FullBitset(len(pool.Offerings))}}}
				if !ignoreAffinity {
					in = pool.AdmitLabels(terms, nil)
				}
				admitted = append(admitted, SpreadOwners{terms: terms, Admitted: in})
			}
			o := &admitted[recent+at]
			o.Groups = append(o.Groups, g)
		})
		s.SpreadOwners = append(s.SpreadOwners, admitted)
	}
}

// LocatePools notes, for each spreading group, the domains in which nodes could be launched that
// the group's owner admits.
func (s *Topology) LocatePools() {
	keys := s.Ledger.Keys()
	hostname := -1
	for at, pool := range s.Model.Pools {
		if pool.NodePool.NotForPods() != "" {
			continue
		}
		for i := range s.SpreadOwners[at] {
			o := &s.SpreadOwners[at][i]
			for _, t := range o.Admitted.Terms {
				choices := make([][]model.DomainChoice, len(keys))
				for k, key := range keys {
					choices[k] = pool.Choices(key, t.Offerings, nil)
				}
				for _, g := range o.Groups {
					k := s.Ledger.KeyOf(g)
					for _, d := range choices[k] {
						s.Ledger.Possible(g, s.Ledger.Domain(k, d.Value), s.brings(g, at, t.Offerings, d.Offerings))
					}
					if keys[k] == label.Hostname && !pool.Launchable.Empty() {
						if hostname < 0 {
							hostname = int(s.Ledger.NewDomain(k))
						}
						s.Ledger.Possible(g, int32(hostname), s.brings(g, at, t.Offerings, nil))
					}
				}
			}
		}
	}
}

// LocatePlanned notes the domains of a new planned node. Those that its NodePool decides are
// known. The others are open until a pod comes for which they matter.
func (s *Topology) LocatePlanned(b *model.PlannedNode) {
	keys := s.Ledger.Keys()
	if len(keys) == 0 {
		return
	}
	b.Domains = topology.Place{Domain: s.places.domains.Take(len(keys)), Counts: s.places.flags.Take(s.Ledger.Groups())}
	for k, key := range keys {
		b.Domains.Domain[k] = topology.Open
		if key == label.Hostname {
			b.Domains.Domain[k] = s.Ledger.NewDomain(k)
		} else if value, only := b.Pool.NodePool.Requirements[key].Only(); only {
			b.Domains.Domain[k] = s.Ledger.Domain(k, value)
		}
	}
	s.CountSpreads(b)
	if len(s.DaemonSets) == 0 {
		b.DaemonSetPods = model.CountedDaemons{Determined: true}
	} else if ways := s.daemonSetChoices(b, b.Offerings); len(ways) == 1 {
		s.determineDaemonSets(b, ways[0])
	}
}

// CountSpreads works out in which spreading groups a planned node counts: those whose owner
// admits some of the offerings that the node has left.
func (s *Topology) CountSpreads(b *model.PlannedNode) {
	for i := range s.SpreadOwners[b.PoolIndex] {
		o := &s.SpreadOwners[b.PoolIndex][i]
		some := slices.ContainsFunc(o.Admitted.Terms, func(t model.AdmittedTerm) bool { return b.Scratch.Intersection(b.Offerings, t.Offerings) })
		for _, g := range o.Groups {
			b.Domains.Counts[g] = some
		}
	}
}
