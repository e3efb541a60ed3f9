package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
)

// Where rules between pods divide them into very many small shares, few of these rules are
// in the way of much: what must be bought depends on the pods' sizes, and on the rules that
// keep the most pods apart. So machines are bought for lots of shares of one size, and who
// of a lot goes where is left to the rules.

const (
	// looseShares is from how many times more shares than lots on they are bought for by lot.
	looseShares = 8
	// looseLots is up to how many lots are few enough to be bought for well.
	looseLots = 64
	// looseColumns, looseImprove and looseLooks are the effort.
	looseColumns, looseImprove, looseLooks = 60, 100, 100_000
)

// lot is shares whose pods are bought for as one: they are of one size, and differ in
// nothing but rules that are expected to leave room enough.
type lot struct {
	shares []int // by index
	count  int
	bins   []uint64 // the atoms that are right
	// due is how many pods more are to go to each domain of the key that shares are divided
	// by than there are slots.
	due []float64
	// slots are the places bought, by domain, first those without any.
	slots [][]slot
	seats []seat
}

// seat is a place that a pod of a share took.
type seat struct {
	bin   *opening
	share int32
}

// slot is places of one size on one machine.
type slot struct {
	bin  *opening
	left int
}

// loosely buys for lots of shares, where that makes few of very many. It returns false if
// it did nothing.
func (b *buyer) loosely() bool {
	key, ok := b.looseKey()
	if !ok || len(b.visible) > 0 {
		return false
	}
	counts := make([]int, len(b.classes))
	for c := range b.classes {
		counts[c] = len(b.classes[c].pods)
	}
	sets := b.exclusive(counts)
	lots, shares := b.lots(sets)
	if len(lots) > looseLots || len(b.shares) < looseShares*len(lots) {
		return false
	}
	problem := b.problemOf(shares, make([][]int32, len(shares)))
	b.addHermits(problem, shares, sets)
	answer := cover.Solve(problem, cover.Effort{Columns: looseColumns, Improve: looseImprove, Looks: looseLooks, Hasty: true})
	b.openLots(&answer, lots, key)
	return true
}

// looseKey returns the one key, besides the hostname, that divides shares; -1 if none does.
// It returns false if several do, or if a type's price depends on where it is bought.
func (b *buyer) looseKey() (key int, ok bool) {
	key = -1
	for i := range b.shares {
		sh := &b.shares[i]
		if sh.wary || sh.key >= 0 && key >= 0 && sh.key != key {
			return -1, false
		}
		key = max(key, sh.key)
	}
	for at, pool := range b.model.pools {
		if pool.limited() || len(pool.minValues) > 0 || key >= 0 && !pool.flat(b.usable[at]) {
			return -1, false
		}
	}
	return key, true
}

// flat tells whether each type costs the same wherever it is bought.
func (p *poolModel) flat(usable bitset) bool {
	for t := range p.types {
		first := -1
		for a := p.types[t].first; a < p.types[t].end; a++ {
			switch o := p.atoms[a]; {
			case !usable.has(a):
			case o.Reservation != "" || first >= 0 && o.Cost() != p.atoms[first].Cost():
				return false
			case first < 0:
				first = a
			}
		}
	}
	return true
}

// lots groups the shares, and returns for each lot one share that stands for it.
func (b *buyer) lots(sets hermits) ([]lot, []share) {
	whole := slices.Clone(b.shares)
	for i := range whole {
		if whole[i].key >= 0 {
			whole[i].bins = whole[i].anywhere
		}
	}
	groups := intern(whole)
	for i := range groups {
		groups[i] = groups[i]<<len(sets) | sets.of(whole[i].members[0].class.index)
	}
	var lots []lot
	var shares []share
	for _, which := range alike(whole, groups, 64) {
		first := &whole[which[0]]
		l := lot{shares: which, bins: first.bins}
		for _, i := range which {
			l.count += whole[i].count
		}
		lots = append(lots, l)
		shares = append(shares, share{members: first.members[:1], count: l.count, size: first.size, key: -1, bins: first.bins})
	}
	return lots, shares
}

// handing is the state of handing out the places that were bought for lots.
type handing struct {
	*buyer
	lots    []lot
	key     int
	domains []int32 // of the key, that shares are divided to; their number is one more than their index
	side    [][]int // by pool and atom: the number of its domain; 0: none of them
	lotOf   []int   // by share
	left    []int   // by share: pods without a place
	passOf  []int   // by share
}

// openLots turns an answer for lots into launches.
func (b *buyer) openLots(answer *cover.Solution, lots []lot, key int) {
	h := &handing{buyer: b, lots: lots, key: key, lotOf: make([]int, len(b.shares)), left: make([]int, len(b.shares)), passOf: make([]int, len(b.shares))}
	h.expect()
	b.expectMachines(answer)
	before := len(b.launches)
	var bins []*opening
	for _, at := range h.sites(answer) {
		bin := b.openOne(at.pool, at.atom, nil)
		if bin == nil {
			continue
		}
		if at.domain > 0 {
			b.pin(bin.launchBin, key, at.atom)
		}
		bins = append(bins, bin)
		for _, item := range at.items {
			l := &lots[item.Class]
			l.slots[at.domain] = append(l.slots[at.domain], slot{bin, item.N})
		}
	}
	for pass := range passes {
		h.admit(pass)
	}
	h.exchange()
	h.give()
	h.stuffPlain()
	for _, bin := range bins {
		b.take(bin)
	}
	for _, l := range b.launches[before:] {
		l.seal()
	}
	b.fillSlack()
}

// expect finds out how many pods of each lot are to go to which domain.
func (h *handing) expect() {
	for i := range h.shares {
		if sh := &h.shares[i]; sh.key >= 0 && !slices.Contains(h.domains, sh.domain) {
			h.domains = append(h.domains, sh.domain)
		}
	}
	for i := range h.lots {
		l := &h.lots[i]
		l.due, l.slots = make([]float64, len(h.domains)+1), make([][]slot, len(h.domains)+1)
		for _, n := range l.shares {
			sh := &h.shares[n]
			h.lotOf[n], h.left[n], h.passOf[n] = i, sh.count, h.pass(&sh.members[0])
			if sh.key >= 0 {
				l.due[h.number(sh.domain)] += float64(sh.count)
			}
		}
	}
	for _, pool := range h.model.pools {
		side := make([]int, len(pool.atoms))
		if h.key >= 0 {
			k, _ := pool.decided(h.ledger.Keys()[h.key])
			for i, v := range k.values {
				d := h.number(h.ledger.Domain(h.key, v))
				for a := range k.with[i].all() {
					side[a] = d
				}
			}
		}
		h.side = append(h.side, side)
	}
}

// number returns the domain's number; 0 if no share goes there.
func (h *handing) number(domain int32) int { return slices.Index(h.domains, domain) + 1 }

// site is a machine to be bought, and the number of the domain that it is bought in.
type site struct {
	pool, atom, domain int
	items              []cover.Item
}

// settleRounds bounds how often all sites are asked to move.
const settleRounds = 30

// sites returns the machines of an answer, each in the domain, of those where it costs the same,
// that leaves the fewest pods without a slot where they are to go.
func (h *handing) sites(answer *cover.Solution) []site {
	var sites []site
	for i := range answer.Patterns {
		p := &answer.Patterns[i]
		at, _ := slices.BinarySearch(h.base, int(p.Bin)+1)
		at--
		atom := int(p.Bin) - h.base[at]
		for range p.Times {
			s := site{at, atom, h.side[at][atom], p.Items}
			h.expected(&s, -1)
			sites = append(sites, s)
		}
	}
	if len(h.domains) == 0 {
		return sites
	}
	for range settleRounds {
		moved := false
		for i := range sites {
			moved = h.move(&sites[i]) || moved
		}
		if !moved {
			break
		}
	}
	return sites
}

// expected notes that one more site has slots in its domain: fewer are missing there. One
// takes them back.
func (h *handing) expected(s *site, sign float64) {
	for _, item := range s.items {
		h.lots[item.Class].due[s.domain] += sign * float64(item.N)
	}
}

// move moves a site to the domain where its slots are missed most, and tells whether that
// is another one.
func (h *handing) move(s *site) bool {
	h.expected(s, 1)
	pool := h.model.pools[s.pool]
	t := &pool.types[pool.typeOf[s.atom]]
	best, most := *s, h.missed(s)
	for a := t.first; a < t.end; a++ {
		other := site{s.pool, a, h.side[s.pool][a], s.items}
		if other.domain == s.domain || slices.ContainsFunc(s.items, func(item cover.Item) bool {
			return !bitset(h.lots[item.Class].bins[h.base[s.pool]/64:]).has(a)
		}) {
			continue
		}
		if m := h.missed(&other); m > most+1e-9 {
			best, most = other, m
		}
	}
	moved := best.domain != s.domain
	*s = best
	h.expected(s, -1)
	return moved
}

// missed returns by how much a site's slots lower the sum of the squares of what is missing.
func (h *handing) missed(s *site) (sum float64) {
	for _, item := range s.items {
		due := max(h.lots[item.Class].due[s.domain], 0)
		rest := max(due-float64(item.N), 0)
		sum += due*due - rest*rest
	}
	return sum
}

// Pods that other pods' places matter to are placed in the order of how much: those that
// must be with others, those with another rule on their domain, those that only count in
// rules of others.
const (
	following = iota
	minding
	hosting
	counted
	passes
)

// pass returns in which a class is placed; passes if in none, for no rule concerns it.
func (h *handing) pass(m *member) int {
	switch c := m.class; {
	case len(c.keys) == 0:
		return passes
	case h.key >= 0 && h.ledger.Joins(c.index, h.key, m.st.wishesFrom):
		return following
	case h.key >= 0 && h.ledger.Minds(c.index, h.key, m.st.wishesFrom):
		return minding
	case h.hostname >= 0 && h.ledger.Minds(c.index, h.hostname, m.st.wishesFrom):
		return hosting
	}
	return counted
}

// admit places the pods of one pass one by one, each class's in turn over its domains, as
// long as any finds its place.
func (h *handing) admit(pass int) {
	for progress := true; progress; {
		progress = false
		for first := 0; first < len(h.shares); {
			m := &h.shares[first].members[0]
			end := first + 1
			for end < len(h.shares) && h.shares[end].members[0].class == m.class {
				end++
			}
			if h.passOf[first] == pass {
				for h.turn(first, end) {
					progress = true
				}
			}
			first = end
		}
	}
}

// turn gives each of the class's shares one place. It tells whether any found one.
func (h *handing) turn(first, end int) (progress bool) {
	for i := first; i < end; i++ {
		if h.left[i] > 0 && h.seatAny(i) {
			h.left[i]--
			progress = true
		}
	}
	return progress
}

// seatAny gives one pod of a share any of the slots of its lot, in the domain that it was
// to go to if its rules still allow that.
func (h *handing) seatAny(i int) bool {
	sh := &h.shares[i]
	first := 0
	if sh.key >= 0 {
		first = h.number(sh.domain)
	}
	if h.seatIn(first, i) {
		return true
	}
	if h.passOf[i] == following {
		return false
	}
	for d := range len(h.domains) + 1 {
		if d != first && h.seatIn(d, i) {
			return true
		}
	}
	return false
}

// seatIn gives one pod of a share a slot in a domain.
func (h *handing) seatIn(domain, i int) bool {
	l := &h.lots[h.lotOf[i]]
	for n := range l.slots[domain] {
		s := &l.slots[domain][n]
		if h.admits(s.bin, i) {
			h.count(s.bin, i, 1)
			l.seats = append(l.seats, seat{s.bin, int32(i)})
			if s.left--; s.left == 0 {
				l.slots[domain] = slices.Delete(l.slots[domain], n, n+1)
			}
			return true
		}
		if h.hostname < 0 || !slices.Contains(h.shares[i].members[0].class.keys, h.hostname) {
			break // the other machines of the domain will not do either
		}
	}
	return false
}

// admits tells whether the rules between pods let one more of a share onto a machine.
func (h *handing) admits(bin *opening, i int) bool {
	m := &h.shares[i].members[0]
	return h.ledger.Check(m.class.index, &bin.place, m.st.wishesFrom, m.st.courteous).IsYes()
}

// count notes that n more pods of a share are on a machine.
func (h *handing) count(bin *opening, i int, n int32) {
	if !bin.present {
		h.ledger.Present(&bin.place)
		bin.present = true
	}
	h.ledger.Count(h.shares[i].members[0].class.index, &bin.place, n, 0)
}

// exchange gives pods that are left the seats of others of their lot, who go to slots that
// are left.
func (h *handing) exchange() {
	for i := range h.shares {
		for h.left[i] > 0 && h.passOf[i] < passes && h.exchangeOne(i) {
			h.left[i]--
		}
	}
}

func (h *handing) exchangeOne(i int) bool {
	l := &h.lots[h.lotOf[i]]
	for n := range l.seats {
		bin, other := l.seats[n].bin, int(l.seats[n].share)
		if h.shares[other].members[0].class == h.shares[i].members[0].class {
			continue
		}
		h.count(bin, other, -1)
		if h.admits(bin, i) {
			h.count(bin, i, 1)
			if h.seatAny(other) {
				l.seats[n].share = int32(i)
				return true
			}
			h.count(bin, i, -1)
		}
		h.count(bin, other, 1)
	}
	return false
}

// give puts the pods on their seats.
func (h *handing) give() {
	for n := range h.lots {
		for _, s := range h.lots[n].seats {
			m := &h.shares[s.share].members[0]
			if !s.bin.accept(m) {
				h.count(s.bin, int(s.share), -1)
				continue
			}
			s.bin.used.AddN(m.class.need, 1)
			h.enter(s.bin, m.class, 1)
		}
	}
}

// stuffPlain gives the places that are left to the pods that no rule concerns.
func (h *handing) stuffPlain() {
	for i := range h.lots {
		l := &h.lots[i]
		for _, n := range l.shares {
			sh := &h.shares[n]
			if len(sh.members[0].class.keys) > 0 {
				continue
			}
			for d := range l.slots {
				for n := range l.slots[d] {
					s := &l.slots[d][n]
					s.left = h.stuff(s.bin, sh, s.left)
				}
			}
		}
	}
}
