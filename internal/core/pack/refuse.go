package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// why returns the reason why no launch can hold a pod of the class: the nearest miss of
// every pool.
func (s *solver) why(c *class) verdict.Verdict {
	if c.shape.Invalid != "" {
		return verdict.Of(verdict.PodError, "", "%s", c.shape.Invalid)
	}
	if len(s.model.pools) == 0 {
		return verdict.Of(verdict.NoPool, "", "there is no NodePool")
	}
	all := verdict.Verdict{Reason: verdict.NoPlace}
	for p, pool := range s.model.pools {
		all.Causes = append(all.Causes, pool.why(c, &c.last().in[p]).About("pool "+pool.pool.Name))
	}
	if len(all.Causes) == 1 {
		return all.Causes[0]
	}
	if !slices.ContainsFunc(all.Causes, func(v verdict.Verdict) bool { return v.Reason != verdict.TooLarge }) {
		all.Reason = verdict.TooLarge
	}
	return all
}

// refuseTooLarge refuses the pods that ask for more of a resource than any type or running node
// has, before they cost anybody else anything.
func (s *solver) refuseTooLarge() {
	most := make(quantity.Vector, len(s.model.space))
	for _, p := range s.model.pools {
		raise(most, p.roomMost)
	}
	for i := range s.fixed {
		raise(most, s.fixed[i].free)
	}
	for c := range s.classes {
		if cl := &s.classes[c]; !roomFor(most, cl.need) {
			s.refuse(cl)
			s.tooLarge += len(cl.pods)
			cl.pods, cl.tooLarge = nil, true
		}
	}
}

// why returns the nearest miss of one pool.
func (p *poolModel) why(c *class, in *classIn) verdict.Verdict {
	switch {
	case !in.refusal.IsYes():
		return in.refusal
	case len(p.types) == 0:
		return noType()
	}
	atoms := newBitset(len(p.atoms))
	for i := range in.terms {
		atoms.or(in.terms[i].atoms)
	}
	refusal := p.whyTooLarge(c, atoms)
	switch {
	case !refusal.IsYes():
		return refusal
	case p.buyable.empty():
		return noType()
	case p.nodesLeft <= 0:
		return p.limitReached(quantity.Nodes)
	case !atoms.intersection(atoms, p.buyable):
		return verdict.Of(verdict.NoOffering, "", "no offering that the pod allows is available")
	}
	return p.whyTooSmall(c, atoms)
}

func noType() verdict.Verdict {
	return verdict.Of(verdict.NoCompatibleType, "", "no instance type within its requirements is available")
}

// whyTooLarge is for a pod that asks for more of one resource than any type has, available or not,
// of those that it allows.
func (p *poolModel) whyTooLarge(c *class, atoms bitset) verdict.Verdict {
	for r, need := range c.need {
		var largest *typeModel
		for t := range p.types {
			if tm := &p.types[t]; atoms.anyIn(tm.first, tm.end) && (largest == nil || tm.free[r] > largest.free[r]) {
				largest = tm
			}
		}
		switch {
		case need <= 0 || largest == nil || need <= largest.free[r]:
		case largest.free[r] <= 0:
			return verdict.Of(verdict.TooLarge, "", "no instance type has %s for pods", fit.Resource(p.space[r]))
		default:
			return verdict.Of(verdict.TooLarge, "", "no instance type holds %s %s; the largest, %s, has %s for pods",
				fit.AtLeast(p.space[r], need), fit.Resource(p.space[r]), largest.Name, fit.AtMost(p.space[r], largest.free[r]))
		}
	}
	return verdict.Verdict{}
}

// whyTooSmall is for a class that finds types, but none with room: too small, held back
// by a limit, or too few for minValues.
func (p *poolModel) whyTooSmall(c *class, atoms bitset) verdict.Verdict {
	best, short := -1, verdict.Verdict{}
	for t := range p.types {
		tm := &p.types[t]
		if !atoms.anyIn(tm.first, tm.end) {
			continue
		}
		refusal := fit.Resources(p.space, c.need, tm.free)
		switch {
		case !refusal.IsYes():
		case !tm.capacity.Fits(p.left):
			for i, name := range p.space {
				if tm.capacity[i] > p.left[i] {
					return p.limitReached(name)
				}
			}
		case !fit.Ports(c.shape.Ports, tm.ports).IsYes():
			return verdict.Of(verdict.HostPortTaken, "", "a daemon takes the host port")
		default:
			if !c.apart.IsYes() {
				return c.apart.Verdict()
			}
			return p.whyMinValues()
		}
		if best < 0 || nearer(c.need, tm.free, p.types[best].free) {
			best, short = t, refusal
		}
	}
	short.Detail += " on the largest type allowed (" + p.types[best].Name + ")"
	return short
}

// nearer tells whether a misses less of need than b does, by the worst share.
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

func (p *poolModel) limitReached(resource string) verdict.Verdict {
	left := p.nodesLeft
	for i, name := range p.space {
		if name == resource && resource != quantity.Nodes {
			left = p.left[i]
		}
	}
	return verdict.Of(verdict.PoolLimitReached, "", "limit of %s reached (%s left)",
		fit.Amount(resource, p.pool.Limits[resource]), fit.Amount(resource, max(0, left)))
}

func (p *poolModel) whyMinValues() verdict.Verdict {
	if len(p.minValues) == 0 {
		return verdict.Of(verdict.ResourceShort, "", "no instance type has room")
	}
	r := &p.minValues[0]
	return verdict.Of(verdict.MinValuesUnmet, "", "%s needs %d values among the types that hold the pod", r.key, r.need)
}

// idle returns the pools of which nothing can be bought.
func (s *solver) idle() []verdict.Verdict {
	var idle []verdict.Verdict
	for _, p := range s.model.pools {
		if p.pool.Unready == "" && p.buyable.empty() {
			idle = append(idle, verdict.Of(verdict.NoCompatibleType, p.pool.Name,
				"no instance type within the requirements is available"))
		}
	}
	return idle
}
