package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// This file keeps gangs whole: kube-scheduler binds no pod of a gang before it can bind the
// gang's minimum. So a plan has nodes for that many pods of a gang, or for none.

const (
	// gangTries bounds how many gangs are tried again one by one, of those that are short when all
	// are decided about together. The first half are the first ones in the order of trial. The
	// others change every minute, so that gangs for which there is never enough do not keep the
	// rest from being tried.
	gangTries = 4
	// gangRounds bounds how often the decision is then made without the gangs that are still short.
	// After that it is made without any gang.
	gangRounds = 2

	minutesPerHour = 60
)

// gangName names a gang; the zero value: none.
type gangName struct{ namespace, name string }

// ganging is one decision about pods of which some are in gangs. It is made once if no gang gets
// only a part of what it needs, and at most 2+gangTries+gangRounds times.
type ganging struct {
	snap   *cluster.Snapshot
	decide func(*cluster.Snapshot) plan.Plan
	// of is the gang of each pending pod, and names are these gangs in the order of their first pods.
	of    map[cluster.PodRef]gangName
	names []gangName
	// out are the gangs that are not decided about any more, and why.
	out map[gangName]verdict.Verdict
	// lost are the pods because of which a decision was given up. The next is made without them.
	lost    map[cluster.PodRef]verdict.Verdict
	givenUp []string
	effort  int64
}

// shortGang is a gang with too few assigned pods in a plan.
type shortGang struct {
	*cluster.Gang
	places int // of its pending pods, how many are assigned
	why    verdict.Verdict
}

func (s *shortGang) key() gangName { return gangName{s.Namespace, s.Name} }

// wholeGangs makes a decision in which each gang has enough nodes or none. What gangs that are
// short would have taken is there for other pods.
func wholeGangs(snap *cluster.Snapshot, decide func(*cluster.Snapshot) plan.Plan) plan.Plan {
	if !slices.ContainsFunc(snap.Pending, func(p cluster.Pod) bool { return p.Gang != "" }) {
		return decide(snap)
	}
	g := newGanging(snap, decide)
	p, short := g.attempt()
	if !slices.ContainsFunc(short, hasPart) {
		return g.answer(p)
	}
	g.leave(short)
	p, found := g.oneByOne(g.trialOrder(short))
	for round := 0; !found; round++ {
		if round == gangRounds {
			g.leaveAll()
		}
		p, short = g.attempt()
		if found = !slices.ContainsFunc(short, hasPart); !found {
			g.leave(short)
		}
	}
	return g.answer(p)
}

func hasPart(s shortGang) bool { return s.places > 0 }

// newGanging leaves out the gangs that are refused whatever the decision is.
func newGanging(snap *cluster.Snapshot, decide func(*cluster.Snapshot) plan.Plan) *ganging {
	g := &ganging{
		snap: snap, decide: decide, of: map[cluster.PodRef]gangName{},
		out: map[gangName]verdict.Verdict{}, lost: map[cluster.PodRef]verdict.Verdict{},
	}
	known := make(map[gangName]*cluster.Gang, len(snap.Gangs))
	for i := range snap.Gangs {
		known[gangName{snap.Gangs[i].Namespace, snap.Gangs[i].Name}] = &snap.Gangs[i]
	}
	asking := map[gangName]int{}
	for i := range snap.Pending {
		p := &snap.Pending[i]
		if p.Gang == "" {
			continue
		}
		name := gangName{p.Namespace, p.Gang}
		if g.of[p.PodRef] = name; asking[name] == 0 {
			g.names = append(g.names, name)
		}
		asking[name]++
	}
	for _, name := range g.names {
		subject, pods := "PodGroup "+name.name, asking[name]
		switch gang := known[name]; {
		case gang == nil:
			g.out[name] = verdict.Of(verdict.GangUnknown, subject, "there is no such PodGroup, so it is not known how many pods must have nodes at once")
		case gang.Known < gang.Minimum:
			g.out[name] = verdict.Of(verdict.GangIncomplete, subject, "it needs %d pods, and there are %d", gang.Minimum, gang.Known)
		case gang.Bound+pods < gang.Minimum:
			g.out[name] = verdict.Of(verdict.GangIncomplete, subject, "it needs nodes for %d pods at once; %d of its %d pods have a node, and %d ask for one", gang.Minimum, gang.Bound, gang.Known, pods)
		}
	}
	return g
}

// attempt makes the decision without what is left out, and returns the gangs that are short in
// its plan.
func (g *ganging) attempt() (p plan.Plan, short []shortGang) {
	part := *g.snap
	part.Pending = slices.DeleteFunc(slices.Clone(g.snap.Pending), func(p cluster.Pod) bool { return !g.whyOut(p.PodRef).IsYes() })
	p = g.decide(&part)
	g.givenUp = append(g.givenUp, p.GivenUp...)
	g.effort += p.Effort
	for _, r := range p.Refusals {
		if givenUpFor(r.Why) {
			g.lost[r.Pod] = r.Why
		}
	}
	return p, g.short(&p)
}

// givenUpFor reports whether a decision was given up because of the pod that is refused.
func givenUpFor(why verdict.Verdict) bool {
	return why.Reason == verdict.TooMuchEffort || why.Reason == verdict.DecisionFailed
}

// whyOut returns why a pod is left out of the decision; yes: it is not.
func (g *ganging) whyOut(ref cluster.PodRef) verdict.Verdict {
	if why, is := g.lost[ref]; is {
		return why
	}
	return g.out[g.of[ref]]
}

// short returns the gangs that were decided about and have too few assigned pods.
func (g *ganging) short(p *plan.Plan) (short []shortGang) {
	places, refused := map[gangName]int{}, map[gangName]verdict.Verdict{}
	for _, m := range p.Assignments {
		places[g.of[m.Pod]]++
	}
	for i := range p.Launches {
		for _, ref := range p.Launches[i].Pods {
			places[g.of[ref]]++
		}
	}
	for _, r := range p.Refusals {
		if name := g.of[r.Pod]; refused[name].IsYes() {
			refused[name] = r.Why
		}
	}
	for i := range g.snap.Gangs {
		gang := &g.snap.Gangs[i]
		name := gangName{gang.Namespace, gang.Name}
		why, some := refused[name]
		if !g.out[name].IsYes() || !some && places[name] == 0 {
			continue
		}
		if has := gang.Bound + places[name]; has < gang.Minimum {
			v := verdict.Of(verdict.GangShort, "PodGroup "+gang.Name, "it needs nodes for %d pods at once, and only %d would have one", gang.Minimum, has)
			if some {
				v.Causes = []verdict.Verdict{why}
			}
			short = append(short, shortGang{gang, places[name], v})
		}
	}
	return short
}

func (g *ganging) leave(short []shortGang) {
	for i := range short {
		g.out[short[i].key()] = short[i].why
	}
}

// leaveAll leaves out every gang.
func (g *ganging) leaveAll() {
	for _, name := range g.names {
		if g.out[name].IsYes() {
			g.out[name] = verdict.Of(verdict.GangShort, "PodGroup "+name.name, "no plan was found in which it and others have the nodes that they need at once")
		}
	}
}

// trialOrder returns gangs in the order in which they are tried. Gangs that had a part of what
// they need come first; of these and of the others the oldest of each namespace, then the next
// of each. If only one gang had a part, it is not tried: no other gang took anything from it.
func (g *ganging) trialOrder(short []shortGang) []shortGang {
	sorted := slices.Clone(short)
	slices.SortStableFunc(sorted, func(a, b shortGang) int { return a.Created.Compare(b.Created) })
	turn, next := map[gangName]int{}, map[string]int{}
	for i := range sorted {
		s := &sorted[i]
		turn[s.key()] = next[s.Namespace]
		next[s.Namespace]++
	}
	slices.SortStableFunc(sorted, func(a, b shortGang) int {
		return cmp.Or(cmp.Compare(min(b.places, 1), min(a.places, 1)), cmp.Compare(turn[a.key()], turn[b.key()]))
	})
	if len(sorted) == 1 || !hasPart(sorted[1]) {
		sorted = sorted[1:]
	}
	if own := gangTries / 2; len(sorted) > gangTries {
		rest := sorted[own:]
		at := g.snap.At.UTC()
		first := (minutesPerHour*at.Hour() + at.Minute()) % len(rest)
		sorted = slices.Concat(sorted[:own], rest[first:], rest[:first])[:gangTries]
	}
	return sorted
}

// oneByOne tries gangs that are left out one after another, each together with those before it
// that had enough. It returns the last plan in which no gang is short, if there is one.
func (g *ganging) oneByOne(gangs []shortGang) (best plan.Plan, found bool) {
	for i := range gangs {
		name := gangs[i].key()
		had := g.out[name]
		delete(g.out, name)
		p, short := g.attempt()
		if len(short) == 0 {
			best, found = p, true
			continue
		}
		g.out[name] = had
		if own := slices.IndexFunc(short, func(s shortGang) bool { return s.key() == name }); own >= 0 {
			g.leave(short[own : own+1])
		}
	}
	return best, found
}

// answer adds to the plan the refusals of all pods that were left out, in the order of the pods'
// names.
func (g *ganging) answer(p plan.Plan) plan.Plan {
	g.leave(g.short(&p)) // those without any assigned pod
	answered := make(map[cluster.PodRef]bool, len(p.Refusals))
	p.Refusals = slices.Clone(p.Refusals)
	for i := range p.Refusals {
		r := &p.Refusals[i]
		answered[r.Pod] = true
		if why := g.out[g.of[r.Pod]]; !why.IsYes() && !givenUpFor(r.Why) {
			r.Why = why
		}
	}
	for i := range g.snap.Pending {
		ref := g.snap.Pending[i].PodRef
		if why := g.whyOut(ref); !why.IsYes() && !answered[ref] {
			p.Refusals = append(p.Refusals, plan.Refusal{Pod: ref, Why: why})
		}
	}
	slices.SortStableFunc(p.Refusals, func(a, b plan.Refusal) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	p.GivenUp, p.Effort = g.givenUp, g.effort
	return p
}
