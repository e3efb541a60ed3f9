package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack/launch"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Solve decides for every pending pod: a node of the snapshot, a node to be
// launched, or a refusal. The same snapshot gives the same plan.
//
// A pod that an earlier plan assigned to a node keeps that target node as long as it fits
// there. The others go to running nodes, the largest first, then to in-flight NodeClaims. For
// the rest nodes are launched together, from the NodePools with the highest weight, at the
// least price that is found. First-fit-decreasing is tried as well, and its plan is taken if
// it is cheaper.
//
// A decision that takes more effort than opts allow refuses every pod. Decide leaves out the
// pods that took the most instead.
func Solve(snap *cluster.Snapshot, opts Options) plan.Plan {
	if p, ended := trySolve(snap, opts); ended {
		return p
	}
	return refuseAll(snap, tooMuchEffort(effortFor(opts, snap)))
}

// trySolve is Solve, and reports whether the effort sufficed. If not, there is no plan.
func trySolve(snap *cluster.Snapshot, opts Options) (p plan.Plan, ended bool) {
	if opts.TypesMax == 0 {
		opts.TypesMax = model.TypesMaxDefault
	}
	if opts.PriceCap == 0 {
		opts.PriceCap = model.PriceCapDefault
	}
	meter := effort.New(effortFor(opts, snap))
	ended = meter.Run(func() { p = solve(snap, opts, meter) })
	p.Effort = meter.Spent()
	return p, ended
}

func solve(snap *cluster.Snapshot, opts Options, meter *effort.Meter) plan.Plan {
	s, bound := solved(snap, opts, meter)
	out := newLeftOut(snap, verdict.Of(verdict.NoPlace, "", "it would keep pods that exist from their nodes"))
	if seen := seenChunks(snap); len(seen) > 0 {
		out.leave(seen)
		if t, other := solved(out.kept, opts, meter); s.outcome().worse(t.outcome(), t.state.Model.Pools) {
			s, bound = t, other
		} else {
			out = newLeftOut(snap, out.why)
		}
	}
	best := s.plan()
	if !opts.FirstFitOnly && (bound == 0 || opts.Prove || len(best.Refusals) > 0) {
		bound = launch.Bound(s.state, s.cost().hourly)
	}
	best.BoundHourly = bound
	if len(out.refusals) > 0 {
		best = out.with(best)
	}
	return best
}

// solved returns the best solver for a snapshot, and a lower bound of the price; 0: it is to be
// worked out.
func solved(snap *cluster.Snapshot, opts Options, meter *effort.Meter) (*solver, float64) {
	begin := func(meter *effort.Meter) *solver {
		s := compile(snap, opts, meter)
		s.withhold()
		s.keepPlanned()
		return s
	}
	start := func() *solver { return begin(meter) }
	s, bound := start().best(start)
	if opts.ResiliencePremium > 0 && !opts.FirstFitOnly {
		s = s.resilient(begin, meter)
	}
	if s.withheld == 0 {
		return s, bound
	}
	return s.withChunks(start), 0
}

// best places the pods at hand. It returns the best solver, which may be another one than s, and a
// bound as solved does. start begins a solve anew.
func (s *solver) best(start func() *solver) (*solver, float64) {
	if s.state.Model.Options.FirstFitOnly {
		s.firstFit()
		s.finish()
		return s, 0
	}
	var f *solver
	if len(s.state.Assignments) <= place.FirstFitMax && s.state.AnyUnplaced() {
		f = s.fork()
	}
	s.state.PlaceOnExisting()
	bound, pods := launch.Launch(s.state)
	s.firstFit()
	s.finish()
	c := s.cost()
	// Where no rule was in the way, core/cover has tried first-fit-decreasing itself.
	plain := pods > 0 && pods == s.state.CountOnPlanned() && c.refused == 0
	if plain {
		return s, bound
	}
	if c.refused > 0 || c.launches > 0 && s.state.CountOnPlanned() <= place.FirstFitMax {
		if f == nil {
			f = start()
		}
		f.firstFit()
		f.finish()
		if f.cost().less(c) {
			s = f
		}
	}
	return s, 0
}

// firstFit places the pods that are left by first-fit-decreasing, and refuses those that fit
// nowhere.
func (s *solver) firstFit() {
	s.state.PlaceAll()
	if s.state.FreePrices() && s.state.AnyUnplaced() {
		s.state.PlaceAll()
	}
	// Domains in which nodes could be launched, but were not, do not constrain spread.
	s.state.NotePlanned()
	for c := range s.state.Classes {
		if cl := &s.state.Classes[c]; len(cl.Pods) > 0 && !s.state.Model.Options.BuyableBinds && s.state.Topology.Ledger.OnlyPresent(c) {
			s.state.PlaceAll()
		}
	}
	s.thin()
	for c := range s.state.Classes {
		s.refuse(&s.state.Classes[c])
	}
}

// thin keeps planned nodes to the domains that exist, as closeAll would in the end. That gives
// back a part of the pools' limits, and the pods that are left may fit into it.
func (s *solver) thin() {
	if !slices.ContainsFunc(s.state.Model.Pools, (*model.Pool).IsLimited) {
		return
	}
	for left := s.state.CountUnplaced(); left > 0; {
		before := left
		s.state.KeepDomains()
		s.state.PlaceAll()
		if left = s.state.CountUnplaced(); left == before {
			return
		}
	}
}

// keepPlanned assigns each pod that an earlier plan assigned to a node to that node again, if
// it has room. Rules between pods are checked once all of these pods are there, because the
// order in which they will be bound is not known. A pod that waits takes the node of one like it that still runs
// elsewhere: that one may not be evicted before the other runs.
func (s *solver) keepPlanned() {
	if !slices.ContainsFunc(s.state.Model.Snapshot.Pending, func(p cluster.Pod) bool { return p.Planned != "" }) {
		return
	}
	byName := make(map[string]int32, len(s.state.Existing))
	for i := range s.state.Existing {
		byName[s.state.Existing[i].Node.Name] = int32(i)
		if claim := s.state.Existing[i].Node.Claim; claim != "" {
			byName[claim] = int32(i)
		}
	}
	var kept []keptPod
	for c := range s.state.Classes {
		cl := &s.state.Classes[c]
		rest := cl.Pods[:0]
		targets := s.targets(cl)
		for i, p := range cl.Pods {
			name := targets[i]
			at, ok := byName[name]
			if name == "" || !ok || s.state.Existing[at].Add(cl, cl.Last(), 1) == 0 {
				rest = append(rest, p)
				continue
			}
			s.state.Assignments[p] = model.Assignment{Kind: model.OnExisting, Index: at}
			if len(cl.Keys) > 0 {
				s.state.Topology.Ledger.Count(c, &s.state.Existing[at].Domains, 1, 0)
				kept = append(kept, keptPod{c, p})
			}
		}
		cl.Pods = rest
	}
	// A pod that is removed may be one that another's assignment depended on.
	for lost := true; lost; {
		lost = false
		for i, k := range kept {
			if k.pod < 0 {
				continue
			}
			cl, b := &s.state.Classes[k.class], &s.state.Existing[s.state.Assignments[k.pod].Index]
			if s.state.Topology.Ledger.Holds(k.class, &b.Domains).IsYes() {
				continue
			}
			s.state.Remove(cl, k.pod)
			cl.Pods = append(cl.Pods, k.pod)
			kept[i].pod, lost = -1, true
		}
	}
}

// targets returns for each pod of a class for which node it is planned; empty: for none.
func (s *solver) targets(cl *model.PodClass) []string {
	targets := make([]string, len(cl.Pods))
	from := len(targets)
	for i, p := range cl.Pods {
		pod := &s.state.Model.Snapshot.Pending[p]
		if targets[i] = pod.Planned; pod.Running {
			from = min(from, i)
		}
	}
	if len(cl.Keys) == 0 {
		return targets
	}
	for i := range from {
		for at := from; at < len(targets) && targets[i] == ""; at++ {
			targets[i], targets[at] = targets[at], ""
		}
	}
	return targets
}

// keptPod is a pod with rules that was assigned to its earlier target node.
type keptPod struct {
	class int
	pod   int32 // -1: it was removed again
}

// finish decides for planned nodes what their pods leave open, and validates every pod's rules
// once more with all other pods where they are planned.
func (s *solver) finish() {
	for round := range finishRounds {
		s.closeAll()
		last := round == finishRounds-1
		if s.validate(last) || last {
			break
		}
		s.state.PlaceAll()
	}
	if s.readmit() {
		s.closeAll()
		s.validate(true)
	}
	s.dropEmpty()
}

// closeAll decides for planned nodes what their pods leave open: domains, reservations, supplies, and
// whether minValues hold.
func (s *solver) closeAll() {
	s.state.KeepDomains()
	s.reserve()
	for round := 0; s.supply() && round < finishRounds; round++ {
		s.state.KeepDomains()
		s.reserve()
	}
	for _, b := range s.state.Planned {
		if !b.Refusal.IsYes() {
			continue
		}
		if b.FixDomains(); !s.state.Model.Options.MinValuesBestEffort {
			b.Refusal = b.ShortOfValues(b.Types)
		}
	}
}

// plan returns the plan, in the order of the snapshot's pending pods, which is by name.
func (s *solver) plan() plan.Plan {
	out := plan.Plan{At: s.state.Model.Snapshot.At, Idle: s.idle(), Resilience: s.resilience}
	launchAt, count := make([]int, len(s.state.Planned)), make([]int, len(s.state.Planned))
	for _, at := range s.state.Assignments {
		if at.Kind == model.OnPlanned {
			count[at.Index]++
		}
	}
	refs := make([]cluster.PodRef, s.state.CountOnPlanned())
	var last model.Described
	for i, b := range s.state.Planned {
		launchAt[i] = -1
		if !b.Refusal.IsYes() {
			continue
		}
		l, refusal := s.state.Model.Describe(b, &last)
		if b.Refusal = refusal; refusal.IsYes() {
			launchAt[i] = len(out.Launches)
			l.Pods, refs = refs[:0:count[i]], refs[count[i]:]
			out.Launches = append(out.Launches, l)
		}
	}
	for p := range s.state.Model.Snapshot.Pending {
		ref := s.state.Model.Snapshot.Pending[p].PodRef
		at := s.state.Assignments[p]
		switch {
		case at.Kind == model.OnExisting:
			n := s.state.Existing[at.Index].Node
			out.Assignments = append(out.Assignments, plan.Assignment{Pod: ref, Node: n.Name, Claim: n.Claim})
		case at.Kind == model.OnPlanned && launchAt[at.Index] >= 0:
			l := &out.Launches[launchAt[at.Index]]
			l.Pods = append(l.Pods, ref)
		case at.Kind == model.OnPlanned:
			out.Refusals = append(out.Refusals, plan.Refusal{Pod: ref, Why: s.state.Planned[at.Index].Refusal})
		default:
			out.Refusals = append(out.Refusals, plan.Refusal{Pod: ref, Why: s.refused[p]})
		}
	}
	return out
}

// compile states the snapshot in the solver's terms. This work, and all that the solver does
// later, counts on the meter.
func compile(snap *cluster.Snapshot, opts Options, meter *effort.Meter) *solver {
	m := model.New(snap, model.SpaceOf(snap), opts, meter)
	for _, p := range m.Pools {
		p.LiftLimits(len(snap.Pending))
	}
	s := &solver{state: place.NewState(m), refused: make([]verdict.Verdict, len(snap.Pending))}
	s.before = s.state.Topology.Ledger.Clone()
	s.refuseTooLarge()
	return s
}

// placeChunks places chunks after all other pods: on existing nodes, then in what planned nodes
// have left, then on nodes of their own. Other pods that are unplaced stay so.
func (s *solver) placeChunks() {
	unplaced := make([][]int32, len(s.state.Classes))
	for c := range s.state.Classes {
		if cl := &s.state.Classes[c]; !cl.IsBuffer {
			unplaced[c], cl.Pods = cl.Pods, nil
		}
	}
	s.release(func(*cluster.Constraints) bool { return true })
	for _, b := range s.state.Planned {
		b.KeepPrice()
	}
	for _, c := range s.state.Order {
		if cl := &s.state.Classes[c]; len(cl.Pods) > 0 {
			s.state.FillPlanned(cl, cl.Last())
		}
	}
	if s.state.AnyUnplaced() && !s.state.Model.Options.FirstFitOnly {
		launch.Launch(s.state)
	}
	s.firstFit()
	s.finish()
	for c := range s.state.Classes {
		switch cl := &s.state.Classes[c]; {
		case !cl.IsBuffer:
			cl.Pods = unplaced[c]
		case cl.Waits: // some may have lost their place to the rules of others
			s.refuseWaiting(cl.Pods)
		}
	}
}

// withChunks adds the chunks to the best plan for all other pods. start begins a solve anew.
func (s *solver) withChunks(start func() *solver) *solver {
	apart := s.outcome()
	s.placeChunks()
	if s.state.Model.Options.FirstFitOnly || !s.anyPlanned(false) || !s.anyPlanned(true) {
		return s
	}
	if j := start(); j.together() && !j.outcome().worse(apart, s.state.Model.Pools) && j.cost().less(s.cost()) {
		return j
	}
	return s
}

// together plans nodes for chunks and other pods at once: often it costs less to make a node larger
// that is launched for pods anyway. Chunks that rules of pods may count come later all the same. It reports
// whether there was anything to plan at once.
func (s *solver) together() bool {
	s.state.PlaceOnExisting()
	s.release(isUnseen)
	if !slices.ContainsFunc(s.state.Classes, func(c model.PodClass) bool { return c.IsBuffer && len(c.Pods) > 0 }) {
		return false
	}
	launch.Launch(s.state)
	s.firstFit()
	s.finish()
	s.placeChunks()
	return true
}
