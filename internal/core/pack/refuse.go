package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// why returns why no new node can hold a pod of the class: the nearest miss of every NodePool.
func (s *solver) why(c *model.PodClass) verdict.Verdict {
	if c.Constraints.Invalid != "" {
		return verdict.Of(verdict.PodError, "", "%s", c.Constraints.Invalid)
	}
	if len(s.state.Model.Pools) == 0 {
		return verdict.Of(verdict.NoPool, "", "there is no NodePool")
	}
	all := verdict.Verdict{Reason: verdict.NoPlace}
	for p, pool := range s.state.Model.Pools {
		all.Causes = append(all.Causes, whyOf(pool, s.state.Model.Supplies, c, &c.Last().Admitted[p]).About("pool "+pool.NodePool.Name))
	}
	if len(all.Causes) == 1 {
		return all.Causes[0]
	}
	if !slices.ContainsFunc(all.Causes, func(v verdict.Verdict) bool { return v.Reason != verdict.TooLarge }) {
		all.Reason = verdict.TooLarge
	}
	return all
}

// refuseTooLarge refuses the pods that ask for more of a resource than any instance type or
// running node has. It comes first, so that these pods do not affect the others.
func (s *solver) refuseTooLarge() {
	most := make(quantity.Vector, len(s.state.Model.Space))
	for _, p := range s.state.Model.Pools {
		model.Raise(most, p.LargestFree)
	}
	for i := range s.state.Existing {
		model.Raise(most, s.state.Existing[i].Free)
	}
	for c := range s.state.Classes {
		if cl := &s.state.Classes[c]; !model.RoomFor(most, cl.Need) {
			s.refuse(cl)
			s.tooLarge += len(cl.Pods)
			cl.Pods, cl.TooLarge = nil, true
		}
	}
}

// whyOf returns the nearest miss of one NodePool.
func whyOf(p *model.Pool, left catalog.Supplies, c *model.PodClass, in *model.Admitted) verdict.Verdict {
	switch {
	case !in.Refusal.IsYes():
		return in.Refusal
	case len(p.Types) == 0:
		return noType()
	}
	offerings := model.NewBitset(len(p.Offerings))
	for i := range in.Terms {
		offerings.Or(in.Terms[i].Offerings)
	}
	refusal, used := whyTooLarge(p, c, offerings), usedUp(p, left, offerings)
	switch {
	case !refusal.IsYes():
		return refusal
	case !used.IsYes():
		return used
	case p.Launchable.Empty():
		return noType()
	case p.NodesLeft <= 0:
		return limitReached(p, quantity.Nodes)
	case !offerings.Intersection(offerings, p.Launchable):
		return verdict.Of(verdict.NoOffering, "", "no offering that the pod allows is available")
	}
	return whyTooSmall(p, c, offerings)
}

// usedUp returns which reservation or supply is used up, if none of the offerings can be launched and
// some of them lack only that; yes: that is not so.
func usedUp(p *model.Pool, left catalog.Supplies, offerings model.Bitset) (why verdict.Verdict) {
	for a, o := range p.Offerings {
		if !offerings.Has(a) || !o.Available {
			continue
		}
		short, covered := left.Short(o)
		switch {
		case o.Reservation != "" && o.Left <= 0:
			why = verdict.Of(verdict.ReservationTaken, "", "every reservation that could cover the pod is used up")
		case covered:
			return verdict.Verdict{}
		case why.IsYes():
			why = model.UsedUp(short)
		}
	}
	return why
}

func noType() verdict.Verdict {
	return verdict.Of(verdict.NoCompatibleType, "", "no instance type within its requirements is available")
}

// whyTooLarge returns the reason if a pod asks for more of one resource than any of the
// instance types has that it allows, available or not; yes: some type has enough.
func whyTooLarge(p *model.Pool, c *model.PodClass, offerings model.Bitset) verdict.Verdict {
	for r, need := range c.Need {
		var largest *model.InstanceType
		for t := range p.Types {
			if tm := &p.Types[t]; offerings.AnyIn(tm.First, tm.End) && (largest == nil || tm.Free[r] > largest.Free[r]) {
				largest = tm
			}
		}
		switch {
		case need <= 0 || largest == nil || need <= largest.Free[r]:
		case largest.Free[r] <= 0:
			return verdict.Of(verdict.TooLarge, "", "no instance type has %s for pods", fit.Resource(p.Space[r]))
		default:
			return verdict.Of(verdict.TooLarge, "", "no instance type holds %s %s; the largest, %s, has %s for pods",
				fit.AtLeast(p.Space[r], need), fit.Resource(p.Space[r]), largest.Name, fit.AtMost(p.Space[r], largest.Free[r]))
		}
	}
	return verdict.Verdict{}
}

// whyTooSmall returns why none of the available instance types that a class allows can hold its
// pods: they are too small, a limit excludes them, or they are too few for minValues.
func whyTooSmall(p *model.Pool, c *model.PodClass, offerings model.Bitset) verdict.Verdict {
	best, short := -1, verdict.Verdict{}
	for t := range p.Types {
		tm := &p.Types[t]
		if !offerings.AnyIn(tm.First, tm.End) {
			continue
		}
		refusal := fit.Resources(p.Space, c.Need, tm.Free)
		switch {
		case !refusal.IsYes():
		case !tm.Amounts.Fits(p.Left):
			for i, name := range p.Space {
				if tm.Amounts[i] > p.Left[i] {
					return limitReached(p, name)
				}
			}
		case !fit.Ports(c.Constraints.Ports, tm.Ports).IsYes():
			return verdict.Of(verdict.HostPortTaken, "", "a daemon takes the host port")
		default:
			if !c.LastMiss.IsYes() {
				return c.LastMiss.Verdict()
			}
			return whyMinValues(p)
		}
		if best < 0 || nearer(c.Need, tm.Free, p.Types[best].Free) {
			best, short = t, refusal
		}
	}
	short.Detail += " on the largest type allowed (" + p.Types[best].Name + ")"
	return short
}

// nearer reports whether a misses less of need than b does, by the worst share.
func nearer(need, a, b quantity.Vector) bool {
	worst := func(free quantity.Vector) float64 {
		w := 0.0
		for i, n := range need {
			if n > 0 {
				w = max(w, float64(n-free[i])/float64(n))
			}
		}
		return w
	}
	return worst(a) < worst(b)
}

func limitReached(p *model.Pool, resource string) verdict.Verdict {
	left := p.NodesLeft
	for i, name := range p.Space {
		if name == resource && resource != quantity.Nodes {
			left = p.Left[i]
		}
	}
	return verdict.Of(verdict.PoolLimitReached, "", "limit of %s reached (%s left)",
		fit.Amount(resource, p.NodePool.Limits[resource]), fit.Amount(resource, max(0, left)))
}

func whyMinValues(p *model.Pool) verdict.Verdict {
	if len(p.MinValues) == 0 {
		return verdict.Of(verdict.ResourceShort, "", "no instance type has room")
	}
	r := &p.MinValues[0]
	return verdict.Of(verdict.MinValuesUnmet, "", "%s needs %d values among the types that hold the pod", r.Key, r.Need)
}

// idle returns the NodePools from which nothing can be launched.
func (s *solver) idle() []verdict.Verdict {
	var idle []verdict.Verdict
	for _, p := range s.state.Model.Pools {
		if p.NodePool.NotForPods() == "" && p.Launchable.Empty() && usedUp(p, s.state.Model.Supplies, p.Allowed).IsYes() {
			idle = append(idle, verdict.Of(verdict.NoCompatibleType, p.NodePool.Name,
				"no instance type within the requirements is available"))
		}
	}
	return idle
}

// refuse refuses the pods of a class that are not assigned.
func (s *solver) refuse(c *model.PodClass) {
	if len(c.Pods) == 0 {
		return
	}
	why := s.why(c)
	for _, p := range c.Pods {
		s.refused[p] = why
	}
}

// tooMuchEffort is the refusal of pods that a decision did not cope with in that many units.
func tooMuchEffort(units int64) verdict.Verdict {
	return verdict.Of(verdict.TooMuchEffort, "", "a decision with the pod takes too much effort (over %d units): it and others like it have too many rules, alternatives or preferences", units)
}

// refuseAll returns the plan that refuses every pending pod.
func refuseAll(snap *cluster.Snapshot, why verdict.Verdict) plan.Plan {
	p := plan.Plan{At: snap.At}
	for i := range snap.Pending {
		p.Refusals = append(p.Refusals, plan.Refusal{Pod: snap.Pending[i].PodRef, Why: why})
	}
	return p
}
