package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Options are what the operator may set. The zero value is the default.
type Options struct {
	// MinValuesBestEffort lowers a minValues rule to what there is, where it would
	// otherwise make a launch impossible.
	MinValuesBestEffort bool
	// TypesMax caps how many instance types a launch names; 0: 600.
	TypesMax int
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
	for c := range s.classes {
		s.place(&s.classes[c])
	}
	return s.plan()
}

// solver is one solve under way.
type solver struct {
	snap    *cluster.Snapshot
	opts    Options
	model   *model
	classes []class
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

// keepPlanned gives each pod that was meant for a machine its place there, if it has one.
func (s *solver) keepPlanned() {
	for c := range s.classes {
		cl := &s.classes[c]
		rest := cl.pods[:0]
		for _, p := range cl.pods {
			name := s.snap.Pending[p].Planned
			at, ok := s.byName[name]
			if name != "" && ok && s.fixed[at].add(cl, 1) == 1 {
				s.placed[p] = placement{onFixed, at}
				continue
			}
			rest = append(rest, p)
		}
		cl.pods = rest
	}
}

// place finds room for all pods of a class, or refuses those left.
func (s *solver) place(c *class) {
	for i := range s.fixed {
		c.take(s.placed, s.fixed[i].add(c, len(c.pods)), placement{onFixed, int32(i)})
	}
	for i, b := range s.launches {
		c.take(s.placed, b.add(c, len(c.pods)), placement{onLaunch, int32(i)})
	}
	for len(c.pods) > 0 {
		b, n := s.open(c)
		if n == 0 {
			why := s.why(c)
			for _, p := range c.pods {
				s.refused[p] = why
			}
			return
		}
		s.launches = append(s.launches, b)
		c.take(s.placed, n, placement{onLaunch, int32(len(s.launches) - 1)})
	}
}

// open starts a launch for the class in the first pool, by weight, that can hold it.
func (s *solver) open(c *class) (*launchBin, int) {
	if c.shape.Invalid != "" {
		return nil, 0
	}
	for p, pool := range s.model.pools {
		if !c.in[p].refusal.IsYes() {
			continue
		}
		b, n := pool.open(p, c)
		if n == 0 && pool.settle(s.launches) {
			b, n = pool.open(p, c)
		}
		if n > 0 {
			return b, n
		}
	}
	return nil, 0
}

// plan writes the answer down, in the order of the pods' names.
func (s *solver) plan() plan.Plan {
	out := plan.Plan{At: s.snap.At, Idle: s.idle()}
	launchAt := make([]int, len(s.launches))
	for i, b := range s.launches {
		l, refusal := s.launch(b)
		launchAt[i] = -1
		if refusal.IsYes() {
			launchAt[i] = len(out.Launches)
			out.Launches = append(out.Launches, l)
		} else {
			b.refusal = refusal
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
