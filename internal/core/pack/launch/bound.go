package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

const (
	// boundColumnsMax is up to how many classes column generation raises the bound, and
	// boundColumns how many rounds of it are done.
	boundColumnsMax, boundColumns = 40, 40
	// boundNear is how near to the bound the price must be for that. A price that is farther away
	// is so because of rules, which column generation does not know.
	boundNear = 1.1
	// proofImprove is the local search before the bound is proven: the better the best known answer,
	// the sooner it is proven to be the best.
	proofImprove = 60
)

// Bound returns a lower bound of what nodes cost for the pods on planned nodes; the plan's own
// price is hourly. The proof knows sizes, labels, taints, the weight of NodePools, and the rules
// between pods that keep the most pods on nodes of their own.
func Bound(s *place.State, hourly float64) float64 {
	b := newLauncher(s)
	b.usable = b.usable[:0]
	for _, p := range s.Model.Pools {
		usable := p.Launchable.Clone()
		for a := range usable.All() {
			if !p.Offerings[a].HasPrice() {
				usable.Clear(a)
			}
		}
		b.usable = append(b.usable, usable)
	}
	b.reserved = s.Model.ReservationsLeft()
	counts := plannedPods(b.state, b.model.Snapshot)
	for c := range s.Classes {
		if counts[c] == 0 {
			continue
		}
		cl := &s.Classes[c]
		b.shares = append(b.shares, share{members: b.member(cl, cl.Last()), count: counts[c], size: cl.Need, key: -1, bins: b.reach(cl)})
	}
	if len(b.shares) == 0 {
		return 0
	}
	exclusive := b.exclusive(counts)
	whole := b.shares
	b.shares = mergeBy(whole, b.kindred(exclusive), 64)
	problem := b.priced(make([][]int32, len(b.shares)), exclusive)
	bound, _ := cover.Bound(problem)
	if len(problem.Classes) <= boundColumnsMax && hourly < bound*boundNear {
		bound = max(bound, cover.Solve(problem, cover.Effort{Columns: boundColumns}).Bound)
	}
	if s.Model.Options.Prove {
		b.shares = whole
		if conflicts := b.ruled(exclusive); conflicts != nil {
			problem = b.priced(conflicts, exclusive)
		}
		bound = max(bound, cover.Solve(problem, cover.Effort{Improve: proofImprove, Ascend: true, Prove: true, ProofRounds: s.Model.Options.ProofRounds}).Bound)
	}
	return bound
}

// priced states the shares as a problem at the true prices, without fees.
func (b *launcher) priced(conflicts [][]int32, h mutuallyExclusive) *cover.Problem {
	problem := b.problemOf(b.shares, conflicts)
	b.addExclusive(problem, b.shares, h)
	for at, pool := range b.model.Pools {
		for a := range b.usable[at].All() {
			problem.Bins[b.base[at]+a].Price = pool.Offerings[a].Price()
		}
	}
	problem.BinFee = 0
	return problem
}

// ruledMax is up to how many shares the proof knows the other rules between pods.
const ruledMax = 160

// ruled merges shares that are alike to all rules, and returns the conflicts of those that are
// left. It notes how many of each may be on one node. nil: there are too many shares.
func (b *launcher) ruled(h mutuallyExclusive) (conflicts [][]int32) {
	groups := b.kindred(h)
	for i := range groups {
		groups[i] <<= 16
		if c, _ := b.shares[i].lead(); len(c.Keys) > 0 {
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
		of := func(share int) int { return h.of(b.shares[share].members[0].class.Index) }
		conflicts[i] = slices.DeleteFunc(conflicts[i], func(j int32) bool { return of(i)&of(int(j)) != 0 })
	}
	return conflicts
}

// most returns how many pods of a share one new node may have, whatever else is there; 0: any
// number.
func (b *launcher) most(sh *share) int {
	c, st := sh.lead()
	if len(c.Keys) == 0 {
		return 0
	}
	if b.model.Options.BuyableBinds {
		var limited share
		b.limit(c, st, &limited)
		return limited.perBin
	}
	for range b.keptApart(c.Index, b.hostname) {
		return 1
	}
	return 0
}

// kindred numbers the shares: those with equal sets of bins, and in the same mutually exclusive
// sets, have equal numbers.
func (b *launcher) kindred(h mutuallyExclusive) []int {
	groups := intern(b.shares)
	for i := range groups {
		groups[i] = groups[i]<<len(h) | h.of(b.shares[i].members[0].class.Index)
	}
	return groups
}

// plannedPods returns, by class, how many pods are on planned nodes.
func plannedPods(state *place.State, snap *cluster.Snapshot) []int {
	counts := make([]int, len(state.Classes))
	of := make(map[*cluster.Constraints]int, len(state.Classes))
	for c := range state.Classes {
		of[state.Classes[c].Constraints] = c
	}
	for p := range state.Assignments {
		if at := state.Assignments[p]; at.Kind == model.OnPlanned && state.Planned[at.Index].Refusal.IsYes() {
			counts[of[snap.Pending[p].Constraints]]++
		}
	}
	return counts
}

// reach returns every offering that pods of the class could have been put on, at any stage: those
// of the NodePools with the highest weight, and those with less weight if something may have
// excluded the former.
func (b *launcher) reach(cl *model.PodClass) []uint64 {
	b.right = append(b.right[:0], make([]uint64, b.bins/64)...)
	weight, done := int32(0), false
	for at, pool := range b.model.Pools {
		if done && pool.NodePool.Weight != weight {
			break
		}
		offerings := model.Bitset(b.right[b.base[at]/64:][:len(b.usable[at])])
		for i := range cl.Stages {
			for t := range cl.Stages[i].Admitted[at].Terms {
				offerings.Or(cl.Stages[i].Admitted[at].Terms[t].Offerings)
			}
		}
		offerings.And(b.usable[at])
		// Rules between pods and preferences may lead past a pool.
		if first := &cl.Stages[0].Admitted[at]; len(cl.Keys) == 0 && len(cl.Constraints.Ports) == 0 && first.Refusal.IsYes() && !pool.IsLimited() && len(pool.MinValues) == 0 && pool.AnyHolds(cl.Need, b.sold(at, first)) {
			weight, done = pool.NodePool.Weight, true
		}
	}
	return b.sets.shared(b.right)
}
