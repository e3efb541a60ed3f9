package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
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
	// PriceCap is how many times the price of its cheapest type a launch's other types may
	// cost; 0: 1.5. Where that leaves spot few places to be found in, dearer types are
	// named, too.
	PriceCap float64
	// IgnorePreferences gives every preference up from the start, those of taints aside.
	IgnorePreferences bool
	// BuyableBinds keeps spreads to domains in which machines could be bought even where
	// none can be after all. kube-scheduler does not know of such domains, so by default
	// they bind nobody in the end.
	BuyableBinds bool
	// Prove works the bound out to the last where that can be done, which can take a minute.
	Prove bool
	// Effort bounds the work of one decision, in units of package effort; 0: what a decision
	// about that many pods and nodes may need (see effortFor).
	Effort int64
	// FirstFitOnly gives the answer of first-fit-decreasing alone, to compare with.
	FirstFitOnly bool
}

const (
	typesMaxDefault = 600
	priceCapDefault = 1.5
)

// Solve decides for every pending pod: a machine of the snapshot, a machine to be
// launched, or a refusal. The same snapshot gives the same plan.
//
// Pods that an earlier plan meant for a machine keep their place as long as it still
// fits them. The others go largest first to running machines, then to machines on their
// way. For those left, machines are bought: by weight of their pools, and together at the
// least price that is found. First-fit decreasing is tried as well, and its plan taken
// if it is cheaper.
//
// A decision that takes more effort than opts allow refuses every pod; Decide leaves out those
// that took the most instead.
func Solve(snap *cluster.Snapshot, opts Options) plan.Plan {
	if p, ended := trySolve(snap, opts); ended {
		return p
	}
	return refuseAll(snap, tooMuchEffort(opts.effortFor(snap)))
}

// trySolve is Solve that reports whether the effort sufficed. If not there is no plan.
func trySolve(snap *cluster.Snapshot, opts Options) (p plan.Plan, ended bool) {
	if opts.TypesMax == 0 {
		opts.TypesMax = typesMaxDefault
	}
	if opts.PriceCap == 0 {
		opts.PriceCap = priceCapDefault
	}
	meter := effort.New(opts.effortFor(snap))
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
	if len(snap.Pending) <= firstFitMax && s.rest() {
		f = s.fork()
	}
	s.placeOnFixed()
	bound, pods := s.buy()
	s.firstFit()
	s.finish()
	c := s.cost()
	// Where no rule was in the way, core/cover has tried first-fit-decreasing itself.
	plain := pods > 0 && pods == s.onLaunches() && c.refused == 0
	if !plain && (c.refused > 0 || c.launches > 0 && s.onLaunches() <= firstFitMax) {
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
		bound = s.bound()
	}
	best.BoundHourly = bound
	return best
}

// firstFitMax is up to how many pods first-fit-decreasing is tried where rules take it pod
// by pod. For more, in every scenario tried, it costs time and is dearer.
const firstFitMax = 3000

// rest tells whether pods are left that need a machine.
func (s *solver) rest() bool {
	return slices.ContainsFunc(s.classes, func(c class) bool { return len(c.pods) > 0 })
}

// awaits tells whether pods of the class must be where pods of another are that have no
// place yet.
func (s *solver) awaits(c int) bool {
	if !s.ledger.Follows(c) {
		return false
	}
	for o := range s.classes {
		if o != c && len(s.classes[o].pods) > 0 && s.ledger.Leads(o, c) {
			return true
		}
	}
	return false
}

// placeOneFixed finds a machine that is there for one pod that others' places matter to,
// or that matters to theirs.
func (s *solver) placeOneFixed(c *class, st *stage) (placement, bool) {
	for i := range s.fixed {
		b := &s.fixed[i]
		if s.model.meter.Spend(c.weight); quantity.Times(b.free, b.used, c.need, 1) == 0 ||
			!s.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous).IsYes() || b.add(c, st, 1) == 0 {
			continue
		}
		s.ledger.Count(c.index, &b.place, 1, 0)
		return placement{onFixed, int32(i)}, true
	}
	return placement{}, false
}

// cost is what a solve comes to: pods refused (but for those that nothing can hold), launches of
// unknown price, dollars an hour, and launches.
type cost struct {
	refused, unknown int
	hourly           float64
	launches         int
}

// cost returns what the solve comes to.
func (s *solver) cost() (c cost) {
	c.refused = -s.tooLarge
	for _, p := range s.placed {
		if p.kind == nowhere || p.kind == onLaunch && !s.launches[p.index].refusal.IsYes() {
			c.refused++
		}
	}
	for _, b := range s.launches {
		if !b.refusal.IsYes() {
			continue
		}
		c.launches++
		if price := b.price(b.cheapest()); math.IsInf(price, 1) {
			c.unknown++
		} else {
			c.hourly += price
		}
	}
	return c
}

// priceSlack is a difference of prices, in dollars an hour, that is rounding.
const priceSlack = 1e-9

func (c cost) less(o cost) bool {
	if c.refused == o.refused && c.unknown == o.unknown && math.Abs(c.hourly-o.hourly) < priceSlack {
		return c.launches < o.launches
	}
	return cmp.Or(cmp.Compare(c.refused, o.refused), cmp.Compare(c.unknown, o.unknown), cmp.Compare(c.hourly, o.hourly)) < 0
}

// firstFit places what is left where it fits first, largest first.
func (s *solver) firstFit() {
	s.placeAll()
	if s.unseal() && s.rest() {
		s.placeAll()
	}
	// Domains in which machines could be bought, but were not, bind nobody.
	s.noteLaunches()
	for c := range s.classes {
		if cl := &s.classes[c]; len(cl.pods) > 0 && !s.opts.BuyableBinds && s.ledger.OnlyPresent(c) {
			s.placeAll()
		}
	}
	s.thin()
	for c := range s.classes {
		s.refuse(&s.classes[c])
	}
}

// thin has launches keep to domains there are, as they will have to in the end, and places
// what is left with what that gives back to the pools' limits.
func (s *solver) thin() {
	if !slices.ContainsFunc(s.model.pools, (*poolModel).limited) {
		return
	}
	for left := s.left(); left > 0; {
		before := left
		s.keepDomains()
		s.placeAll()
		if left = s.left(); left == before {
			return
		}
	}
}

// left returns how many pods have no place yet.
func (s *solver) left() (n int) {
	for c := range s.classes {
		n += len(s.classes[c].pods)
	}
	return n
}

// unseal lets every launch grow. It tells whether one could not.
func (s *solver) unseal() (changed bool) {
	for _, b := range s.launches {
		changed = changed || b.sealed > 0
		b.unseal()
	}
	return changed
}

// placeOnFixed places pods on machines there are, as far as all their wishes are met.
// Those that must be with others that have no place yet have to wait for them.
func (s *solver) placeOnFixed() {
	if len(s.fixed) == 0 {
		return
	}
	for _, c := range s.order {
		cl := &s.classes[c]
		switch st := &cl.stages[0]; {
		case cl.shape.Invalid != "" || s.awaits(c):
		case len(cl.keys) == 0:
			s.fillFixed(cl, st)
		default:
			for len(cl.pods) > 0 {
				at, ok := s.placeOneFixed(cl, st)
				if !ok {
					break
				}
				cl.take(s.placed, 1, at)
			}
		}
	}
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
	// before is the ledger as it was when no pod had a place.
	before *topology.Ledger
	// counted tells, by pool, what the owners of spreading groups admit of it.
	counted [][]owners
	// watchers are whom it matters for which machines count in a spread.
	watchers []watcher
	// visible are the daemons that rules of pods see.
	visible []visibleDaemon
	// fixed are machines of the snapshot in the order of preference; launches are new.
	fixed    []fixedBin
	launches []*launchBin

	places   placeMemory
	placed   []placement // by pending pod
	refused  []verdict.Verdict
	tooLarge int // how many pods nothing can hold
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
	if !slices.ContainsFunc(s.snap.Pending, func(p cluster.Pod) bool { return p.Planned != "" }) {
		return
	}
	byName := make(map[string]int32, len(s.fixed))
	for i := range s.fixed {
		byName[s.fixed[i].node.Name] = int32(i)
		if claim := s.fixed[i].node.Claim; claim != "" {
			byName[claim] = int32(i)
		}
	}
	var kept []keptPod
	for c := range s.classes {
		cl := &s.classes[c]
		rest := cl.pods[:0]
		for _, p := range cl.pods {
			name := s.snap.Pending[p].Planned
			at, ok := byName[name]
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
			s.remove(cl, k.pod)
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

// fillFixed places pods of a class whose place does not matter to others on machines
// there are.
func (s *solver) fillFixed(c *class, st *stage) {
	s.model.meter.Spend(len(s.fixed) * c.weight)
	for i := range s.fixed {
		c.take(s.placed, s.fixed[i].add(c, st, len(c.pods)), placement{onFixed, int32(i)})
	}
}

// fillLaunches places pods of a class on machines that are to be bought.
func (s *solver) fillLaunches(c *class, st *stage) {
	s.model.meter.Spend(1 + len(s.launches))
	for i, b := range s.launches {
		switch {
		case len(c.pods) == 0:
			return
		case !b.refusal.IsYes():
		case len(c.keys) == 0:
			c.take(s.placed, b.add(c, st, len(c.pods)), placement{onLaunch, int32(i)})
		default:
			for len(c.pods) > 0 && s.addSettled(b, c, st) {
				c.take(s.placed, 1, placement{onLaunch, int32(i)})
			}
		}
	}
}

// place finds room for pods of a class whose place does not matter to others.
func (s *solver) place(c *class, st *stage) {
	s.fillFixed(c, st)
	s.fillLaunches(c, st)
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

// finish settles on the launches what pods leave open but other things decide, and holds
// every pod to its rules once more, with all others where they are planned.
func (s *solver) finish() {
	for round := range finishRounds {
		s.closeAll()
		last := round == finishRounds-1
		if s.uphold(last) || last {
			break
		}
		s.placeAll()
	}
	if s.readmit() {
		s.closeAll()
		s.uphold(true)
	}
	s.dropEmpty()
}

// closeAll settles on the launches what pods leave open.
func (s *solver) closeAll() {
	s.keepDomains()
	s.reserve()
	for _, b := range s.launches {
		if !b.refusal.IsYes() {
			continue
		}
		if b.close(); !s.opts.MinValuesBestEffort {
			b.refusal = b.shortOfValues(b.types)
		}
	}
}

// finishRounds bounds how often pods that could not stay where they were are placed anew.
const finishRounds = 3

// plan writes the answer down, in the order of the pods' names.
func (s *solver) plan() plan.Plan {
	out := plan.Plan{At: s.snap.At, Idle: s.idle()}
	launchAt, count := make([]int, len(s.launches)), make([]int, len(s.launches))
	for _, at := range s.placed {
		if at.kind == onLaunch {
			count[at.index]++
		}
	}
	refs := make([]cluster.PodRef, s.onLaunches())
	var last written
	for i, b := range s.launches {
		launchAt[i] = -1
		if !b.refusal.IsYes() {
			continue
		}
		l, refusal := s.launch(b, &last)
		if b.refusal = refusal; refusal.IsYes() {
			launchAt[i] = len(out.Launches)
			l.Pods, refs = refs[:0:count[i]], refs[count[i]:]
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
