package place

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// This file is about DaemonSet pods counted by topology: those that a rule between pods selects,
// and those with such a rule. A new node brings its DaemonSet pods, so they count in its domains
// from the start. Mostly there are none, and then all this costs nothing.

// daemonSetChoice is one set of DaemonSet pods that a node could have, and the offerings with
// which it has that set.
type daemonSetChoice struct {
	daemons   []int
	offerings model.Bitset
}

// findCounted finds the DaemonSets whose pods are counted by topology. Only pods that such a rule
// concerns decide the domain of a node; what the others leave open is checked by the final
// validation. If every pod decided it, one pod with a rule on instance types could make all nodes
// small.
func (s *Topology) findCounted() {
	first := len(s.Ledger.Constraints()) - len(s.Model.Snapshot.Daemons)
	for i := range s.Model.Snapshot.Daemons {
		v := CountedDaemonSet{name: s.Model.Snapshot.Daemons[i].Name, constraints: s.Model.Snapshot.Daemons[i].Constraints, Class: first + i}
		if len(s.Ledger.KeysOf(v.Class)) == 0 {
			continue
		}
		for _, pool := range s.Model.Pools {
			on := model.NewBitset(len(pool.Types))
			for _, term := range pool.Admit(v.constraints, nil).Terms {
				for t := range pool.Types {
					if term.Offerings.AnyIn(pool.Types[t].First, pool.Types[t].End) {
						on.Set(t)
					}
				}
			}
			v.on = append(v.on, on)
		}
		s.DaemonSets = append(s.DaemonSets, v)
	}
}

// countDaemonSetsToCome counts the DaemonSet pods that are yet to come to a node that is starting.
func (s *Topology) countDaemonSetsToCome(n *cluster.Node, place *topology.Place) {
	if n.Initialized || n.Deleting {
		return
	}
	for i := range s.DaemonSets {
		v := &s.DaemonSets[i]
		comes := fit.Tolerated(v.constraints.Tolerations, n.Taints) && fit.Matches(v.constraints.Terms, n.Labels)
		if n.InFlight != nil {
			comes = s.mayCome(v, n)
		}
		if comes && !slices.Contains(n.Daemons, v.name) {
			s.Ledger.Count(v.Class, place, 1, 0)
		}
	}
}

// mayCome reports whether some instance type that an in-flight NodeClaim may become has the
// DaemonSet.
func (s *Topology) mayCome(v *CountedDaemonSet, n *cluster.Node) bool {
	at := slices.IndexFunc(s.Model.Pools, func(p *model.Pool) bool { return p.NodePool.Name == n.Pool })
	return at >= 0 && slices.ContainsFunc(s.Model.Pools[at].TypesNamed(n.InFlight.Types), func(t int32) bool { return v.on[at].Has(int(t)) })
}

// daemonSetChoices returns the sets of DaemonSet pods that the node could have with these
// offerings, in the order of the types.
func (s *Topology) daemonSetChoices(b *model.PlannedNode, offerings model.Bitset) []daemonSetChoice {
	if len(s.DaemonSets) == 0 {
		return []daemonSetChoice{{offerings: offerings}}
	}
	var ways []daemonSetChoice
	for _, t := range b.Types {
		tm := &b.Pool.Types[t]
		if !offerings.AnyIn(tm.First, tm.End) {
			continue
		}
		var daemons []int
		for i := range s.DaemonSets {
			if s.DaemonSets[i].on[b.PoolIndex].Has(int(t)) {
				daemons = append(daemons, i)
			}
		}
		at := slices.IndexFunc(ways, func(w daemonSetChoice) bool { return slices.Equal(w.daemons, daemons) })
		if at < 0 {
			at = len(ways)
			ways = append(ways, daemonSetChoice{daemons, model.NewBitset(len(b.Pool.Offerings))})
		}
		for a := tm.First; a < tm.End; a++ {
			if offerings.Has(a) {
				ways[at].offerings.Set(a)
			}
		}
	}
	return ways
}

// determineDaemonSets decides which DaemonSet pods come with the node, and counts them.
func (s *Topology) determineDaemonSets(b *model.PlannedNode, w daemonSetChoice) {
	b.DaemonSetPods = model.CountedDaemons{Determined: true, Daemons: w.daemons}
	for _, d := range b.DaemonSetPods.Daemons {
		s.Ledger.Count(s.DaemonSets[d].Class, &b.Domains, 1, 0)
	}
}

// DaemonSetsOn returns the counted DaemonSets that come with the node; all that may, if that is not
// determined.
func (s *Topology) DaemonSetsOn(b *model.PlannedNode) []int {
	if b.DaemonSetPods.Determined {
		return b.DaemonSetPods.Daemons
	}
	var some []int
	for _, w := range s.daemonSetChoices(b, b.UsableOfferingsIn(b.Scratch)) {
		some = append(some, w.daemons...)
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// forgetDaemonSets takes back what determineDaemonSets did.
func (s *Topology) forgetDaemonSets(b *model.PlannedNode) {
	for _, d := range b.DaemonSetPods.Daemons {
		s.Ledger.Count(s.DaemonSets[d].Class, &b.Domains, -1, 0)
	}
	b.DaemonSetPods = model.CountedDaemons{}
}

// setDomain decides in which domain of a key the node is. Its DaemonSet pods are counted there.
func (s *Topology) setDomain(b *model.PlannedNode, key int, domain int32) {
	for _, d := range b.DaemonSetPods.Daemons {
		s.Ledger.CountUnder(s.DaemonSets[d].Class, &b.Domains, key, -1)
	}
	b.Domains.Domain[key] = domain
	for _, d := range b.DaemonSetPods.Daemons {
		s.Ledger.CountUnder(s.DaemonSets[d].Class, &b.Domains, key, 1)
	}
}

// daemonSetsMayStay reports whether the DaemonSet pods of the node break no rule of other pods.
func (s *Topology) daemonSetsMayStay(b *model.PlannedNode) bool {
	return !slices.ContainsFunc(b.DaemonSetPods.Daemons, func(d int) bool { return !s.Ledger.Admit(s.DaemonSets[d].Class, &b.Domains) })
}

// brings returns how many DaemonSet pods that count in a group a node of a NodePool has at
// least, if it has one of the offerings, and one of those within, if given.
func (s *Topology) brings(group, at int, offerings, within model.Bitset) int32 {
	if len(s.DaemonSets) == 0 {
		return 0
	}
	least := int32(math.MaxInt32)
	both := offerings.Clone()
	if within != nil {
		both.And(within)
	}
	both.And(s.Model.Pools[at].Launchable)
	for t := range s.Model.Pools[at].Types {
		if tm := &s.Model.Pools[at].Types[t]; !both.AnyIn(tm.First, tm.End) {
			continue
		}
		n := int32(0)
		for i := range s.DaemonSets {
			if v := &s.DaemonSets[i]; v.on[at].Has(t) && s.Ledger.Sees(group, v.Class) {
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
