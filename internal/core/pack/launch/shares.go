package launch

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// perBinMax is the number of pods on one node from which on a limit counts as none.
const perBinMax = 256

// divide makes the shares and returns how many pods they have. plain: every unplaced pod is in
// one of them, and no rule, preference, limit or risk concerns any.
func (b *launcher) divide() (pods int, plain bool) {
	b.shares, b.divided = b.shares[:0], b.divided[:0]
	defer b.ledger.Suppose()()
	plain = !slices.ContainsFunc(b.model.Pools, func(p *model.Pool) bool {
		return p.IsLimited() || slices.ContainsFunc(p.Offerings, func(o *catalog.Offering) bool { return o.Risk > 0 })
	})
	for _, c := range b.state.Order {
		cl := &b.state.Classes[c]
		if len(cl.Pods) == 0 || cl.Constraints.Invalid != "" {
			continue
		}
		first := len(b.shares)
		b.divideClass(cl)
		got := 0
		for i := first; i < len(b.shares); i++ {
			sh := &b.shares[i]
			got += sh.count
			plain = plain && sh.plain()
		}
		plain = plain && got == len(cl.Pods) && len(cl.Stages) == model.StagesMin
		pods += got
	}
	// The pods were only counted to divide them.
	for i := range b.shares {
		if sh := &b.shares[i]; sh.key >= 0 {
			place := b.noDomains()
			place.Domain[sh.key] = sh.domain
			b.ledger.Count(sh.members[0].class.Index, &place, -int32(sh.count), 0)
		}
	}
	b.merge()
	return pods, plain
}

// noDomains returns the domains of a node that has no label of the topology keys.
func (b *launcher) noDomains() topology.Place {
	place := topology.Place{Domain: make([]int32, len(b.ledger.Keys()))}
	for k := range place.Domain {
		place.Domain[k] = topology.None
	}
	return place
}

// divideClass makes the shares of one class. It makes none of a class that must be on one node
// with others, or that has rules on several topology keys besides the hostname: these are left
// to first-fit-decreasing.
func (b *launcher) divideClass(cl *model.PodClass) {
	st, bins, cheap := b.stageOf(cl)
	if st == nil {
		return
	}
	whole := share{members: b.member(cl, st), count: len(cl.Pods), size: cl.Need, key: -1, bins: bins}
	whole.perBin = cl.PerNode
	for _, t := range cheap.Terms {
		whole.labelConflict = whole.labelConflict || len(t.Open) > 0
	}
	if len(cl.Constraints.Ports) > 0 {
		whole.perBin, whole.labelConflict = 1, true
	}
	for _, k := range cl.Keys {
		switch {
		case k != b.hostname && whole.key >= 0:
			return
		case k != b.hostname:
			whole.key = k
		default:
			if b.ledger.Joins(cl.Index, k, st.PreferencesFrom) || !b.limit(cl, st, &whole) {
				return
			}
		}
	}
	if whole.key < 0 {
		b.shares = append(b.shares, whole)
		return
	}
	b.split(&whole)
}

// stageOf returns the first stage of the class at which a node can be launched for it, and the
// bins for that: those of the NodePools with the highest weight that have any.
func (b *launcher) stageOf(cl *model.PodClass) (st *model.Stage, bins []uint64, in *model.Admitted) {
	for i := range cl.Stages {
		st := &cl.Stages[i]
		weight, some := int32(0), false
		for at, pool := range b.model.Pools {
			if some && pool.NodePool.Weight != weight {
				break
			}
			admitted := &st.Admitted[at]
			if !admitted.Refusal.IsYes() || st.AvoidPreferNoSchedule && fit.Undesired(cl.Constraints.Tolerations, pool.NodePool.Taints) {
				continue
			}
			offerings := b.sold(at, admitted)
			if !pool.AnyHolds(cl.Need, offerings) {
				continue
			}
			if !some {
				some, weight, in = true, pool.NodePool.Weight, admitted
				b.right = append(b.right[:0], make([]uint64, b.bins/64)...)
			}
			copy(b.right[b.base[at]/64:], offerings)
		}
		if some {
			return st, b.sets.shared(b.right), in
		}
	}
	return nil, nil, nil
}

// limit finds out how many pods of the class one new node may have. It returns false if none.
func (b *launcher) limit(cl *model.PodClass, st *model.Stage, sh *share) bool {
	place := b.noDomains()
	for k := range place.Domain {
		place.Domain[k] = topology.Open
	}
	place.Domain[b.hostname] = b.host
	admits := func() bool { return b.topo.Check(cl, st, &place).IsYes() }
	n := perBinMax
	b.ledger.Count(cl.Index, &place, perBinMax, 0)
	if !admits() {
		b.ledger.Count(cl.Index, &place, -perBinMax, 0)
		for n = 0; admits(); n++ {
			b.ledger.Count(cl.Index, &place, 1, 0)
		}
	}
	b.ledger.Count(cl.Index, &place, -int32(n), 0)
	if n < perBinMax && (sh.perBin == 0 || n < sh.perBin) {
		sh.perBin = n
	}
	return n > 0
}

// split divides a class over the domains of its topology key, pod by pod: each goes to the domain
// that the rules prefer, of equals to the cheapest.
func (b *launcher) split(whole *share) {
	sides := b.sides(whole)
	cl, st := whole.lead()
	place := b.noDomains()
	for range whole.count {
		best, appeal := -1, int64(math.MaxInt64)
		for i := range sides {
			place.Domain[whole.key] = sides[i].domain
			if b.hostname >= 0 {
				place.Domain[b.hostname] = b.host
			}
			if a := b.ledger.Appeal(cl.Index, whole.key, sides[i].domain); a < appeal && b.topo.Check(cl, st, &place).IsYes() {
				best, appeal = i, a
			}
		}
		if best < 0 {
			break
		}
		place.Domain[whole.key] = sides[best].domain
		if b.hostname >= 0 {
			place.Domain[b.hostname] = topology.None
		}
		b.ledger.Present(&place)
		b.ledger.Count(cl.Index, &place, 1, 0)
		sides[best].count++
	}
	for i := range sides {
		if sides[i].count > 0 {
			part := *whole
			part.anywhere = whole.bins
			part.domain, part.bins, part.count = sides[i].domain, sides[i].bins, sides[i].count
			b.shares = append(b.shares, part)
		}
	}
}

// sides returns the domains in which a node that holds a pod of the share can be launched, the
// cheapest first; none if there is a NodePool of which no offering decides the key. They are
// valid until the next call.
func (b *launcher) sides(whole *share) []side {
	for i := range b.divided {
		d := &b.divided[i]
		if d.key == whole.key && slices.Equal(d.size, whole.size) && slices.Equal(d.bins, whole.bins) {
			b.sidesNow = append(b.sidesNow[:0], d.sides...)
			return b.sidesNow
		}
	}
	if len(b.divided) == dividedMax {
		b.divided = b.divided[:0]
	}
	sides := b.sidesOf(whole)
	b.divided = append(b.divided, divided{whole.key, whole.size, whole.bins, sides})
	b.sidesNow = append(b.sidesNow[:0], sides...)
	return b.sidesNow
}

// dividedMax is for how many shares the sides are kept.
const dividedMax = 64

func (b *launcher) sidesOf(whole *share) []side {
	key := b.ledger.Keys()[whole.key]
	var sides []side
	for at, pool := range b.model.Pools {
		own := model.Bitset(whole.bins[b.base[at]/64:][:(len(pool.Offerings)+63)/64])
		if own.Empty() {
			continue
		}
		k, indexed := pool.Label(key)
		if !indexed {
			return nil
		}
		offerings := model.Bitset(b.words.Take(len(own)))
		sides = slices.Grow(sides, len(k.Values))
		for i, v := range k.Values {
			if !offerings.Intersection(own, k.Offerings[i]) || !pool.AnyHolds(whole.size, offerings) {
				continue
			}
			price := pool.MeanPrice(key, i, b.usable[at])
			s := slices.IndexFunc(sides, func(s side) bool { return s.value == v })
			if s < 0 {
				s = len(sides)
				sides = append(sides, side{value: v, domain: b.ledger.Domain(whole.key, v), bins: b.words.Take(b.bins / 64), price: price})
			}
			copy(sides[s].bins[b.base[at]/64:], offerings)
			sides[s].price = min(sides[s].price, price)
		}
	}
	slices.SortFunc(sides, func(x, y side) int { return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(x.value, y.value)) })
	return sides
}
