package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/launch"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Solve decides for every pending pod: a node of the snapshot, a node to be
// launched, or a refusal. The same snapshot gives the same plan.
//
// Pods that an earlier plan meant for a node keep their place as long as it still
// fits them. The others go largest first to running nodes, then to nodes on their
// way. For those left, nodes are launched: by weight of their pools, and together at the
// least price that is found. First-fit decreasing is tried as well, and its plan taken
// if it is cheaper.
//
// A decision that takes more effort than opts allow refuses every pod; Decide leaves out those
// that took the most instead.
func Solve(snap *cluster.Snapshot, opts Options) plan.Plan {
	if p, ended := trySolve(snap, opts); ended {
		return p
	}
	return refuseAll(snap, tooMuchEffort(effortFor(opts, snap)))
}

// trySolve is Solve that reports whether the effort sufficed. If not there is no plan.
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
	s := compile(snap, opts, meter)
	s.keepPlanned()
	if opts.FirstFitOnly {
		s.firstFit()
		s.finish()
		return s.plan()
	}
	var f *solver
	if len(snap.Pending) <= place.FirstFitMax && s.state.AnyUnplaced() {
		f = s.fork()
	}
	s.state.PlaceOnExisting()
	bound, pods := launch.Launch(s.state)
	s.firstFit()
	s.finish()
	c := s.cost()
	// Where no rule was in the way, core/cover has tried first-fit-decreasing itself.
	plain := pods > 0 && pods == s.state.CountOnPlanned() && c.refused == 0
	if !plain && (c.refused > 0 || c.launches > 0 && s.state.CountOnPlanned() <= place.FirstFitMax) {
		if f == nil {
			f = compile(snap, opts, meter)
			f.keepPlanned()
		}
		f.firstFit()
		f.finish()
		if f.cost().less(c) {
			s = f
		}
	}
	best := s.plan()
	if !plain || bound == 0 || opts.Prove || len(best.Refusals) > 0 {
		bound = launch.Bound(s.state, s.cost().hourly)
	}
	best.BoundHourly = bound
	return best
}

// firstFit places what is left where it fits first, largest first.
func (s *solver) firstFit() {
	s.state.PlaceAll()
	if s.state.FreePrices() && s.state.AnyUnplaced() {
		s.state.PlaceAll()
	}
	// Domains in which nodes could be launched, but were not, bind nobody.
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

// thin has launches keep to domains there are, as they will have to in the end, and places
// what is left with what that gives back to the pools' limits.
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

// keepPlanned gives each pod that was meant for a node its place there, if it has
// one. Rules between pods are judged once all of them are there, because the order in
// which they came is not known.
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
		for _, p := range cl.Pods {
			name := s.state.Model.Snapshot.Pending[p].Planned
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
	// One that must go may have been what another's place depended on.
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

// keptPod is a pod with rules that was given the place it was meant for; -1: no more.
type keptPod struct {
	class int
	pod   int32
}

// finish settles on the launches what pods leave open but other things decide, and holds
// every pod to its rules once more, with all others where they are planned.
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

// closeAll settles on the launches what pods leave open.
func (s *solver) closeAll() {
	s.state.KeepDomains()
	s.reserve()
	for _, b := range s.state.Planned {
		if !b.Refusal.IsYes() {
			continue
		}
		if b.FixDomains(); !s.state.Model.Options.MinValuesBestEffort {
			b.Refusal = b.ShortOfValues(b.Types)
		}
	}
}

// plan writes the answer down, in the order of the pods' names.
func (s *solver) plan() plan.Plan {
	out := plan.Plan{At: s.state.Model.Snapshot.At, Idle: s.idle()}
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

// compile states the snapshot in the solver's terms. The work, and all that the solver does
// later, is taken from the meter.
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

// reserve gives each launch that may be covered by a reservation the cheapest one that
// has something left, and settles it on that one. A launch that gets none is left with
// what can be launched; if that is nothing, its pods wait for a reservation to be free.
func (s *solver) reserve() {
	left := s.state.Model.ReservationsLeft()
	if len(left) == 0 {
		return
	}
	for _, b := range s.state.Planned {
		id, ok := b.CheapestReservation(left)
		if ok {
			left[id]--
			b.Requirements = append(b.Requirements, label.Requirements{s.state.Model.Snapshot.ReservationKey: label.In(id), label.CapacityType: label.In(label.Reserved)})
		}
		b.KeepOfferings(func(a int) bool {
			o := b.Pool.Offerings[a]
			return ok && o.Reservation == id || !ok && o.Reservation == ""
		})
		if ok {
			b.RelaxMinValues()
		}
		if len(b.Types) == 0 {
			b.Refusal = verdict.Of(verdict.ReservationTaken, "pool "+b.Pool.NodePool.Name, "every reservation that could cover the pod is used up")
		}
	}
}
