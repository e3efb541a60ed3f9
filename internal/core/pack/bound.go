package pack

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// boundColumnsMax is up to how many classes column generation proves more, and
	// boundColumns in how many rounds.
	boundColumnsMax, boundColumns = 40, 40
	// boundNear is how near to the bound a price must be for that to matter: it is rules
	// that keep it farther away.
	boundNear = 1.1
	// proofImprove is the local search before a bound is worked out to the last: the better the
	// best known answer, the sooner it is proven.
	proofImprove = 60
)

// bound returns a price that no machines for the pods that launches of this solve hold can
// be below: the proof knows sizes, labels, taints, the weight of pools, and of the rules
// between pods those that keep the most pods on machines of their own.
func (s *solver) bound() float64 {
	b := newBuyer(s)
	b.usable = b.usable[:0]
	for _, p := range s.model.pools {
		usable := p.buyable.clone()
		for a := range usable.all() {
			if !p.atoms[a].HasPrice() {
				usable.clear(a)
			}
		}
		b.usable = append(b.usable, usable)
	}
	b.reserved = s.reservationsLeft()
	counts := s.bought()
	for c := range s.classes {
		if counts[c] == 0 {
			continue
		}
		cl := &s.classes[c]
		b.shares = append(b.shares, share{members: b.member(cl, cl.last()), count: counts[c], size: cl.need, key: -1, bins: b.reach(cl)})
	}
	if len(b.shares) == 0 {
		return 0
	}
	hermits := b.exclusive(counts)
	whole := b.shares
	b.shares = mergeBy(whole, b.kindred(hermits), 64)
	problem := b.priced(make([][]int32, len(b.shares)), hermits)
	bound, _ := cover.Bound(problem)
	if len(problem.Classes) <= boundColumnsMax && s.cost().hourly < bound*boundNear {
		bound = max(bound, cover.Solve(problem, cover.Effort{Columns: boundColumns}).Bound)
	}
	if s.opts.Prove {
		b.shares = whole
		if conflicts := b.ruled(hermits); conflicts != nil {
			problem = b.priced(conflicts, hermits)
		}
		bound = max(bound, cover.Solve(problem, cover.Effort{Improve: proofImprove, Prove: true}).Bound)
	}
	return bound
}

// priced states the shares as a problem at the true prices.
func (b *buyer) priced(conflicts [][]int32, h hermits) *cover.Problem {
	problem := b.problemOf(b.shares, conflicts)
	b.addHermits(problem, b.shares, h)
	for at, pool := range b.model.pools {
		for a := range b.usable[at].all() {
			problem.Bins[b.base[at]+a].Price = pool.atoms[a].Price()
		}
	}
	problem.BinFee = 0
	return problem
}

// ruledMax is up to how many shares the proof knows more of the rules between pods.
const ruledMax = 160

// ruled takes shares together that no rule tells apart, and returns the conflicts of those
// that are left, with their limits per machine noted; nil if there are too many.
func (b *buyer) ruled(h hermits) (conflicts [][]int32) {
	groups := b.kindred(h)
	for i := range groups {
		groups[i] <<= 16
		if c, _ := b.shares[i].lead(); len(c.keys) > 0 {
			groups[i] |= 1 + i%(1<<16-1)
		}
	}
	merged := mergeBy(b.shares, groups, 64)
	if len(merged) > ruledMax {
		return nil
	}
	b.shares = merged
	b.hostname = slices.Index(b.ledger.Keys(), label.Hostname)
	if b.hostname < 0 {
		return make([][]int32, len(b.shares))
	}
	b.host = b.ledger.NewDomain(b.hostname)
	for i := range b.shares {
		b.shares[i].perBin = b.most(&b.shares[i])
	}
	conflicts = b.conflicts()
	for i := range conflicts {
		of := func(share int) int { return h.of(b.shares[share].members[0].class.index) }
		conflicts[i] = slices.DeleteFunc(conflicts[i], func(j int32) bool { return of(i)&of(int(j)) != 0 })
	}
	return conflicts
}

// most returns how many of a share one new machine may have, whatever else there is; 0: any.
func (b *buyer) most(sh *share) int {
	c, st := sh.lead()
	if len(c.keys) == 0 {
		return 0
	}
	if b.opts.BuyableBinds {
		var limited share
		b.limit(c, st, &limited)
		return limited.perBin
	}
	for range b.keptApart(c.index, b.hostname) {
		return 1
	}
	return 0
}

// kindred numbers the shares' sets of bins together with the hermits that they are of.
func (b *buyer) kindred(h hermits) []int {
	groups := intern(b.shares)
	for i := range groups {
		groups[i] = groups[i]<<len(h) | h.of(b.shares[i].members[0].class.index)
	}
	return groups
}

// hermitsMax is for how many groups the proof knows that their pods keep to machines of their own.
const hermitsMax = 3

// hermits are sets of classes, by index, of which no two pods may be on one machine. For the
// proof such a set is a resource of which every machine has one.
type hermits []map[int]bool

// of returns as bits in which of the sets a class is.
func (s hermits) of(class int) (bits int) {
	for i, set := range s {
		if set[class] {
			bits |= 1 << i
		}
	}
	return bits
}

// exclusive returns the sets with the most pods.
func (b *buyer) exclusive(counts []int) hermits {
	hostname := slices.Index(b.ledger.Keys(), label.Hostname)
	if hostname < 0 {
		return nil
	}
	pods := make([]int, b.ledger.Groups())
	var groups []int
	for c, n := range counts {
		if n == 0 {
			continue
		}
		for g := range b.keptApart(c, hostname) {
			if pods[g] == 0 {
				groups = append(groups, g)
			}
			pods[g] += n
		}
	}
	slices.SortStableFunc(groups, func(x, y int) int { return cmp.Compare(pods[y], pods[x]) })
	var out hermits
	for _, g := range groups[:min(len(groups), hermitsMax)] {
		if pods[g] > 1 {
			out = append(out, map[int]bool{})
		}
	}
	for c, n := range counts {
		for g := range b.keptApart(c, hostname) {
			if i := slices.Index(groups[:len(out)], g); n > 0 && i >= 0 {
				out[i][c] = true
			}
		}
	}
	return out
}

// keptApart returns the groups of pods under the key that a class both keeps away from and
// counts in.
func (b *buyer) keptApart(class, key int) iter.Seq[int] {
	return func(yield func(group int) bool) {
		for g := range b.ledger.KeptFrom(class, key, math.MaxInt) {
			if slices.Contains(b.ledger.CountedIn(class), g) && !yield(g) {
				return
			}
		}
	}
}

// addHermits makes resources of the sets.
func (b *buyer) addHermits(p *cover.Problem, shares []share, s hermits) {
	if len(s) == 0 {
		return
	}
	one := make([]int64, len(s))
	for i := range one {
		one[i] = 1
	}
	p.Dims += len(s)
	var memory slab[int64]
	for i := range p.Bins {
		b := &p.Bins[i]
		b.Capacity = append(append(memory.take(p.Dims)[:0], b.Capacity...), one...)
	}
	for i := range p.Classes {
		c := &p.Classes[i]
		c.Size = append(memory.take(p.Dims)[:0], c.Size...)
		in := s.of(shares[i].members[0].class.index)
		for n := range s {
			c.Size = append(c.Size, int64(in>>n&1))
		}
	}
}

// bought returns by class how many pods are on launches.
func (s *solver) bought() []int {
	counts := make([]int, len(s.classes))
	of := make(map[any]int, len(s.classes))
	for c := range s.classes {
		of[s.classes[c].shape] = c
	}
	for p := range s.placed {
		if at := s.placed[p]; at.kind == onLaunch && s.launches[at.index].refusal.IsYes() {
			counts[of[s.snap.Pending[p].Shape]]++
		}
	}
	return counts
}

// onLaunches returns how many pods are on launches.
func (s *solver) onLaunches() (n int) {
	for p := range s.placed {
		if s.placed[p].kind == onLaunch {
			n++
		}
	}
	return n
}

// reach returns every atom that the class might have been put on, at any stage: those of
// the pools of most weight, and of less weight too as long as something may have shut it
// out of the former.
func (b *buyer) reach(cl *class) []uint64 {
	b.right = append(b.right[:0], make([]uint64, b.bins/64)...)
	weight, done := int32(0), false
	for at, pool := range b.model.pools {
		if done && pool.pool.Weight != weight {
			break
		}
		atoms := bitset(b.right[b.base[at]/64:][:len(b.usable[at])])
		for i := range cl.stages {
			for t := range cl.stages[i].in[at].terms {
				atoms.or(cl.stages[i].in[at].terms[t].atoms)
			}
		}
		atoms.and(b.usable[at])
		// Rules between pods and wishes may lead past a pool.
		if first := &cl.stages[0].in[at]; len(cl.keys) == 0 && len(cl.shape.Ports) == 0 && first.refusal.IsYes() && !pool.limited() && len(pool.minValues) == 0 && pool.anyHolds(cl.need, b.sold(at, first)) {
			weight, done = pool.pool.Weight, true
		}
	}
	return b.sets.shared(b.right)
}

// limited tells whether the pool has any limits that matter.
func (p *poolModel) limited() bool { return len(p.pool.Limits) > 0 && !p.ample }
