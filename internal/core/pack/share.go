package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// share is pods that are bought for together: those of several classes that may go to the
// same places and are nearly of one size, those of one class, or those of one class that
// are to go to one domain, because rules between pods say so.
type share struct {
	members []member
	count   int
	// size is what one pod needs; of several classes the mean.
	size quantity.Vector
	// key is the ledger's index of the key that decides, -1 if none does; domain is the
	// one chosen.
	key    int
	domain int32
	bins   []uint64 // the atoms that are right
	// anywhere are those that were right before the class was divided.
	anywhere []uint64
	perBin   int // most on one machine; 0: no limit
	// wary: its ports, or what it asks of labels that machines leave open, may conflict
	// with those of another share.
	wary bool
	// low and high are where the next pods are drawn from the members, from either end.
	low, high int
}

// member is a class of a share, and the stage at which it is bought for.
type member struct {
	class *class
	st    *stage
}

// lead returns the class of a share that has only one.
func (sh *share) lead() (*class, *stage) { return sh.members[0].class, sh.members[0].st }

// plain tells whether no rule concerns the share's pods.
func (sh *share) plain() bool {
	return sh.key < 0 && sh.perBin == 0 && !sh.wary && len(sh.members[0].class.keys) == 0
}

// perBinMax is the count of pods on one machine from which on a rule is taken for none.
const perBinMax = 256

// divide makes the shares and returns how many pods they have. plain tells that every pod
// left is in them, and that no rule, wish, limit or risk sends any elsewhere.
func (b *buyer) divide() (pods int, plain bool) {
	b.shares, b.divided = b.shares[:0], b.divided[:0]
	defer b.ledger.Suppose()()
	plain = !slices.ContainsFunc(b.model.pools, func(p *poolModel) bool {
		return p.limited() || slices.ContainsFunc(p.atoms, func(o *catalog.Offering) bool { return o.Risk > 0 })
	})
	for _, c := range b.order {
		cl := &b.classes[c]
		if len(cl.pods) == 0 || cl.shape.Invalid != "" {
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
		plain = plain && got == len(cl.pods) && len(cl.stages) == stagesMin
		pods += got
	}
	// The counts were only meant to divide by.
	for i := range b.shares {
		if sh := &b.shares[i]; sh.key >= 0 {
			place := b.nowhere()
			place.Domain[sh.key] = sh.domain
			b.ledger.Count(sh.members[0].class.index, &place, -int32(sh.count), 0)
		}
	}
	b.merge()
	return pods, plain
}

// nowhere returns a place that has none of the keys.
func (b *buyer) nowhere() topology.Place {
	place := topology.Place{Domain: make([]int32, len(b.ledger.Keys()))}
	for k := range place.Domain {
		place.Domain[k] = topology.None
	}
	return place
}

// divideClass makes the shares of one class. It makes none of a class that must be on one
// machine with others, or whose place matters under several keys.
func (b *buyer) divideClass(cl *class) {
	st, bins, cheap := b.stageOf(cl)
	if st == nil {
		return
	}
	whole := share{members: b.member(cl, st), count: len(cl.pods), size: cl.need, key: -1, bins: bins}
	for _, t := range cheap.terms {
		whole.wary = whole.wary || len(t.open) > 0
	}
	if len(cl.shape.Ports) > 0 {
		whole.perBin, whole.wary = 1, true
	}
	for _, k := range cl.keys {
		switch {
		case k != b.hostname && whole.key >= 0:
			return
		case k != b.hostname:
			whole.key = k
		default:
			if b.ledger.Joins(cl.index, k, st.wishesFrom) || !b.limit(cl, st, &whole) {
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

// member returns a class as the only member of a share.
func (b *buyer) member(cl *class, st *stage) []member {
	b.members = append(b.members, member{cl, st})
	n := len(b.members)
	return b.members[n-1 : n : n]
}

// stageOf returns the first stage of the class at which there is something to buy for it,
// and that, of the pools of most weight that have any.
func (b *buyer) stageOf(cl *class) (st *stage, bins []uint64, in *classIn) {
	for i := range cl.stages {
		st := &cl.stages[i]
		weight, some := int32(0), false
		for at, pool := range b.model.pools {
			if some && pool.pool.Weight != weight {
				break
			}
			admitted := &st.in[at]
			if !admitted.refusal.IsYes() || st.tidy && fit.Undesired(cl.shape.Tolerations, pool.pool.Taints) {
				continue
			}
			atoms := b.sold(at, admitted)
			if !pool.anyHolds(cl.need, atoms) {
				continue
			}
			if !some {
				some, weight, in = true, pool.pool.Weight, admitted
				b.right = append(b.right[:0], make([]uint64, b.bins/64)...)
			}
			copy(b.right[b.base[at]/64:], atoms)
		}
		if some {
			return st, b.sets.shared(b.right), in
		}
	}
	return nil, nil, nil
}

// setsMax is how many sets are kept to be shared.
const setsMax = 32

// sets are sets that are equal for very many, and never changed.
type sets [][]uint64

// shared returns a set that is equal to the one given.
func (s *sets) shared(set []uint64) []uint64 {
	for _, o := range *s {
		if slices.Equal(o, set) {
			return o
		}
	}
	set = slices.Clone(set)
	if len(*s) < setsMax {
		*s = append(*s, set)
	}
	return set
}

// sold returns the atoms that can be bought of a pool for what is admitted. They are good
// until it is asked again.
func (b *buyer) sold(at int, admitted *classIn) bitset {
	usable := b.usable[at]
	for len(b.scratch) < len(usable) {
		b.scratch = append(b.scratch, 0)
	}
	atoms := b.scratch[:len(usable)]
	clear(atoms)
	for t := range admitted.terms {
		atoms.or(admitted.terms[t].atoms)
	}
	atoms.and(usable)
	return atoms
}

// anyHolds tells whether a type with any of the atoms has room for one pod.
func (p *poolModel) anyHolds(need quantity.Vector, atoms bitset) bool {
	for t := range p.types {
		if tm := &p.types[t]; roomFor(tm.free, need) && atoms.anyIn(tm.first, tm.end) {
			return true
		}
	}
	return false
}

// roomFor tells whether one pod fits. What it does not ask for may be short.
func roomFor(free, need quantity.Vector) bool {
	for i, n := range need {
		if n > 0 && n > free[i] {
			return false
		}
	}
	return true
}

// limit finds out how many pods of the class one new machine may have; false if none.
func (b *buyer) limit(cl *class, st *stage, sh *share) bool {
	place := b.nowhere()
	for k := range place.Domain {
		place.Domain[k] = topology.Open
	}
	place.Domain[b.hostname] = b.host
	admits := func() bool { return b.ledger.Check(cl.index, &place, st.wishesFrom, st.courteous).IsYes() }
	n := perBinMax
	b.ledger.Count(cl.index, &place, perBinMax, 0)
	if !admits() {
		b.ledger.Count(cl.index, &place, -perBinMax, 0)
		for n = 0; admits(); n++ {
			b.ledger.Count(cl.index, &place, 1, 0)
		}
	}
	b.ledger.Count(cl.index, &place, -int32(n), 0)
	if n < perBinMax && (sh.perBin == 0 || n < sh.perBin) {
		sh.perBin = n
	}
	return n > 0
}

// side is a domain that pods of a class may be divided to.
type side struct {
	domain int32
	value  string
	bins   []uint64
	price  float64 // of what is sold there
	count  int
}

// split divides a class over the domains of the key that matters, pod by pod: to the
// domain that its rules favour, of equals to the cheapest.
func (b *buyer) split(whole *share) {
	sides := b.sides(whole)
	cl, st := whole.lead()
	place := b.nowhere()
	for range whole.count {
		best, appeal := -1, int64(math.MaxInt64)
		for i := range sides {
			place.Domain[whole.key] = sides[i].domain
			if b.hostname >= 0 {
				place.Domain[b.hostname] = b.host
			}
			if a := b.ledger.Appeal(cl.index, whole.key, sides[i].domain); a < appeal && b.ledger.Check(cl.index, &place, st.wishesFrom, st.courteous).IsYes() {
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
		b.ledger.Count(cl.index, &place, 1, 0)
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

// sides returns the domains in which there is something to buy that holds a pod of a
// share, those with the lowest prices first. It returns none if in some pool no atom
// decides the key. They are good until it is asked again.
func (b *buyer) sides(whole *share) []side {
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

// dividedMax is for how many shares is remembered what domains they may be divided to.
const dividedMax = 64

// divided is what domains a share may be divided to, for others that are like it.
type divided struct {
	key   int
	size  quantity.Vector
	bins  []uint64
	sides []side
}

func (b *buyer) sidesOf(whole *share) []side {
	key := b.ledger.Keys()[whole.key]
	var sides []side
	for at, pool := range b.model.pools {
		own := bitset(whole.bins[b.base[at]/64:][:(len(pool.atoms)+63)/64])
		if own.empty() {
			continue
		}
		k, indexed := pool.decided(key)
		if !indexed {
			return nil
		}
		atoms := bitset(b.words.take(len(own)))
		sides = slices.Grow(sides, len(k.values))
		for i, v := range k.values {
			if !atoms.intersection(own, k.with[i]) || !pool.anyHolds(whole.size, atoms) {
				continue
			}
			price := pool.level(key, i, b.usable[at])
			s := slices.IndexFunc(sides, func(s side) bool { return s.value == v })
			if s < 0 {
				s = len(sides)
				sides = append(sides, side{value: v, domain: b.ledger.Domain(whole.key, v), bins: b.words.take(b.bins / 64), price: price})
			}
			copy(sides[s].bins[b.base[at]/64:], atoms)
			sides[s].price = min(sides[s].price, price)
		}
	}
	slices.SortFunc(sides, func(x, y side) int { return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(x.value, y.value)) })
	return sides
}
