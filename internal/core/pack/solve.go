package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Options are what the operator may set. The zero value is the default.
type Options struct {
	// MinValuesBestEffort lowers a minValues rule to what there is, where it would
	// otherwise make a launch impossible.
	MinValuesBestEffort bool
	// TypesMax caps how many instance types a launch names; 0: 600.
	TypesMax int
	// IgnorePreferences gives every preference up from the start, those of taints aside.
	IgnorePreferences bool
	// BuyableBinds keeps spreads to domains in which machines could be bought even where
	// none can be after all. kube-scheduler does not know of such domains, so by default
	// they bind nobody in the end.
	BuyableBinds bool
	// FirstFitOnly gives the answer of first-fit-decreasing alone, to compare with.
	FirstFitOnly bool
}

const typesMaxDefault = 600

// Solve decides for every pending pod: a machine of the snapshot, a machine to be
// launched, or a refusal. The same snapshot gives the same plan.
//
// Pods that an earlier plan meant for a machine keep their place as long as it still
// fits them. The others go largest first, to running machines, then to machines on their
// way, then to launches of this plan, then to a new launch from the pool of most weight.
func Solve(snap *cluster.Snapshot, opts Options) plan.Plan {
	if opts.TypesMax == 0 {
		opts.TypesMax = typesMaxDefault
	}
	s := compile(snap, opts)
	s.keepPlanned()
	s.placeAll()
	// Domains in which machines could be bought, but were not, bind nobody.
	for c := range s.classes {
		if cl := &s.classes[c]; len(cl.pods) > 0 && !opts.BuyableBinds && s.ledger.OnlyPresent(c) {
			s.placeAll()
		}
	}
	for c := range s.classes {
		s.refuse(&s.classes[c])
	}
	return s.plan()
}

// solver is one solve under way.
type solver struct {
	snap    *cluster.Snapshot
	opts    Options
	model   *model
	classes []class
	// order is that in which classes are packed.
	order  []int
	ledger *topology.Ledger
	// counted tells, by pool and spreading group, what the group's owner admits of the pool.
	counted [][]*classIn
	// visible are the daemons that rules of pods see.
	visible []visibleDaemon
	// fixed are machines of the snapshot in the order of preference; launches are new.
	fixed    []fixedBin
	byName   map[string]int32 // machine name → index into fixed
	launches []*launchBin

	placed  []placement // by pending pod
	refused []verdict.Verdict
}

// placement is where a pending pod went: an index into fixed or launches, or nowhere.
type placement struct {
	kind  placeKind
	index int32
}

type placeKind uint8

const (
	nowhere placeKind = iota
	onFixed
	onLaunch
)

// keepPlanned gives each pod that was meant for a machine its place there, if it has
// one. Rules between pods are judged once all of them are there, because the order in
// which they came is not known.
func (s *solver) keepPlanned() {
	var kept []keptPod
	for c := range s.classes {
		cl := &s.classes[c]
		rest := cl.pods[:0]
		for _, p := range cl.pods {
			name := s.snap.Pending[p].Planned
			at, ok := s.byName[name]
			if name == "" || !ok || s.fixed[at].add(cl, cl.last(), 1) == 0 {
				rest = append(rest, p)
				continue
			}
			s.placed[p] = placement{onFixed, at}
			if len(cl.keys) > 0 {
				s.ledger.Count(c, &s.fixed[at].place, 1, 0)
				kept = append(kept, keptPod{c, p})
			}
		}
		cl.pods = rest
	}
	// One that must go may have been what another's place depended on.
	for lost := true; lost; {
		lost = false
		for i, k := range kept {
			if k.pod < 0 {
				continue
			}
			cl, b := &s.classes[k.class], &s.fixed[s.placed[k.pod].index]
			if s.ledger.Holds(k.class, &b.place).IsYes() {
				continue
			}
			s.ledger.Count(k.class, &b.place, -1, 0)
			b.used.AddN(cl.need, -1)
			s.placed[k.pod] = placement{}
			cl.pods = append(cl.pods, k.pod)
			kept[i].pod, lost = -1, true
		}
	}
}

// keptPod is a pod with rules that was given the place it was meant for; -1: no more.
type keptPod struct {
	class int
	pod   int32
}

// placeAll places what it can, and tries again those that depend on others as long as
// that makes a difference.
func (s *solver) placeAll() {
	for first, progress := true, true; first || progress; first = false {
		progress = false
		for _, p := range s.model.pools {
			p.settled = 0 // what came since may have narrowed a launch further
		}
		for _, c := range s.order {
			cl := &s.classes[c]
			before := len(cl.pods)
			if before == 0 || !first && len(cl.keys) == 0 {
				continue
			}
			for i := 0; i < len(cl.stages) && len(cl.pods) > 0; i++ {
				switch {
				case len(cl.keys) > 0:
					s.placeSingly(cl, &cl.stages[i])
				case cl.stages[i].courteous: // the last stage is for those who have others to heed
					s.place(cl, &cl.stages[i])
				}
			}
			progress = progress || len(cl.pods) < before
		}
	}
}

// place finds room for pods of a class whose place does not matter to others.
func (s *solver) place(c *class, st *stage) {
	for i := range s.fixed {
		c.take(s.placed, s.fixed[i].add(c, st, len(c.pods)), placement{onFixed, int32(i)})
	}
	for i, b := range s.launches {
		c.take(s.placed, b.add(c, st, len(c.pods)), placement{onLaunch, int32(i)})
	}
	for len(c.pods) > 0 {
		n := 0
		s.open(c, st, func(b *launchBin) bool {
			n = b.add(c, st, len(c.pods))
			return n > 0
		})
		if n == 0 {
			return
		}
		c.take(s.placed, n, placement{onLaunch, int32(len(s.launches) - 1)})
	}
}

// open offers a new bin of each pool, by weight, until one is taken. It returns it, or
// nil.
func (s *solver) open(c *class, st *stage, fill func(*launchBin) bool) *launchBin {
	if c.shape.Invalid != "" {
		return nil
	}
	for at, pool := range s.model.pools {
		if !st.in[at].refusal.IsYes() {
			continue
		}
		b := s.fill(pool, at, fill)
		if b == nil && pool.settle(s.launches) {
			b = s.fill(pool, at, fill)
		}
		if b != nil {
			pool.take(b)
			s.launches = append(s.launches, b)
			return b
		}
	}
	return nil
}

func (s *solver) fill(pool *poolModel, at int, fill func(*launchBin) bool) *launchBin {
	b := pool.fresh(at)
	if b == nil {
		return nil
	}
	s.locateLaunch(b)
	if !fill(b) {
		s.depart(b)
		return nil
	}
	return b
}

// refuse gives up on the pods of a class that are left.
func (s *solver) refuse(c *class) {
	if len(c.pods) == 0 {
		return
	}
	why := s.why(c)
	for _, p := range c.pods {
		s.refused[p] = why
	}
}

// plan writes the answer down, in the order of the pods' names.
func (s *solver) plan() plan.Plan {
	out := plan.Plan{At: s.snap.At, Idle: s.idle()}
	s.keepDomains()
	s.reserve()
	launchAt := make([]int, len(s.launches))
	for i, b := range s.launches {
		launchAt[i] = -1
		if !b.refusal.IsYes() {
			continue
		}
		l, refusal := s.launch(b)
		if b.refusal = refusal; refusal.IsYes() {
			launchAt[i] = len(out.Launches)
			out.Launches = append(out.Launches, l)
		}
	}
	for p := range s.snap.Pending {
		ref := s.snap.Pending[p].PodRef
		at := s.placed[p]
		switch {
		case at.kind == onFixed:
			n := s.fixed[at.index].node
			out.Placements = append(out.Placements, plan.Placement{Pod: ref, Node: n.Name, Claim: n.Claim})
		case at.kind == onLaunch && launchAt[at.index] >= 0:
			l := &out.Launches[launchAt[at.index]]
			l.Pods = append(l.Pods, ref)
		case at.kind == onLaunch:
			out.Refusals = append(out.Refusals, plan.Refusal{Pod: ref, Why: s.launches[at.index].refusal})
		default:
			out.Refusals = append(out.Refusals, plan.Refusal{Pod: ref, Why: s.refused[p]})
		}
	}
	return out
}

// byWeight returns the pools, most weight first; of equals the later name first, as the
// API promises.
func byWeight(pools []cluster.Pool) []*cluster.Pool {
	sorted := make([]*cluster.Pool, len(pools))
	for i := range pools {
		sorted[i] = &pools[i]
	}
	slices.SortFunc(sorted, func(a, b *cluster.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	return sorted
}
