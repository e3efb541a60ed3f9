package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// Where rules between pods divide them into very many small shares, few of these rules are
// in the way of much: what must be launched depends on the pods' sizes, and on the rules that
// keep the most pods apart. So nodes are launched for batches of shares of one size, and who
// of a batch goes where is left to the rules.

const (
	// lowEffortShares is from how many times more shares than batches on they are launched for by batch.
	lowEffortShares = 8
	// lowEffortBatches is up to how many batches are few enough to be launched for well.
	lowEffortBatches = 64
	// lowEffortColumns, looseImprove and looseLooks are the effort.
	lowEffortColumns, lowEffortImprove, lowEffortSearches = 60, 100, 100_000
)

// batch is shares whose pods are launched for as one: they are of one size, and differ in
// nothing but rules that are expected to leave room enough.
type batch struct {
	shares []int // by index
	count  int
	bins   []uint64 // the offerings that are right
	// due is how many pods more are to go to each domain of the key that shares are divided
	// by than there are vacancies.
	due []float64
	// vacancies are the places launched, by domain, first those without any.
	vacancies   [][]vacancy
	assignments []assignment
}

// assignment is a place that a pod of a share took.
type assignment struct {
	bin   *opening
	share int32
}

// vacancy is places of one size on one node.
type vacancy struct {
	bin  *opening
	left int
}

// launchBatches launches for batches of shares, where that makes few of very many. It returns false if
// it did nothing.
func (b *launcher) launchBatches() bool {
	key, ok := b.batchKey()
	if !ok || len(b.topo.DaemonSets) > 0 {
		return false
	}
	counts := make([]int, len(b.state.Classes))
	for c := range b.state.Classes {
		counts[c] = len(b.state.Classes[c].Pods)
	}
	sets := b.exclusive(counts)
	batches, shares := b.batches(sets)
	if len(batches) > lowEffortBatches || len(b.shares) < lowEffortShares*len(batches) {
		return false
	}
	problem := b.problemOf(shares, make([][]int32, len(shares)))
	b.addExclusive(problem, shares, sets)
	answer := cover.Solve(problem, cover.Effort{Columns: lowEffortColumns, Improve: lowEffortImprove, Evaluations: lowEffortSearches, LowEffort: true})
	b.openBatches(&answer, batches, key)
	return true
}

// batchKey returns the one key, besides the hostname, that divides shares; -1 if none does.
// It returns false if several do, or if a type's price depends on where it is launched.
func (b *launcher) batchKey() (key int, ok bool) {
	key = -1
	for i := range b.shares {
		sh := &b.shares[i]
		if sh.labelConflict || sh.key >= 0 && key >= 0 && sh.key != key {
			return -1, false
		}
		key = max(key, sh.key)
	}
	for at, pool := range b.model.Pools {
		if pool.IsLimited() || len(pool.MinValues) > 0 || key >= 0 && !pool.HasFlatPrices(b.usable[at]) {
			return -1, false
		}
	}
	return key, true
}

// batches groups the shares, and returns for each batch one share that stands for it.
func (b *launcher) batches(sets mutuallyExclusive) ([]batch, []share) {
	whole := slices.Clone(b.shares)
	for i := range whole {
		if whole[i].key >= 0 {
			whole[i].bins = whole[i].anywhere
		}
	}
	groups := intern(whole)
	for i := range groups {
		groups[i] = groups[i]<<len(sets) | sets.of(whole[i].members[0].class.Index)
	}
	var batches []batch
	var shares []share
	for _, which := range alike(whole, groups, 64) {
		first := &whole[which[0]]
		l := batch{shares: which, bins: first.bins}
		for _, i := range which {
			l.count += whole[i].count
		}
		batches = append(batches, l)
		shares = append(shares, share{members: first.members[:1], count: l.count, size: first.size, key: -1, bins: first.bins})
	}
	return batches, shares
}

// batchAssigner is the state of handing out the places that were launched for batches.
type batchAssigner struct {
	launcher *launcher
	batches  []batch
	key      int
	domains  []int32 // of the key, that shares are divided to; their number is one more than their index
	side     [][]int // by pool and offering: the number of its domain; 0: none of them
	batchOf  []int   // by share
	left     []int   // by share: pods without a place
	passOf   []int   // by share
}

// openBatches turns an answer for batches into launches.
func (b *launcher) openBatches(answer *cover.Solution, batches []batch, key int) {
	h := &batchAssigner{launcher: b, batches: batches, key: key, batchOf: make([]int, len(b.shares)), left: make([]int, len(b.shares)), passOf: make([]int, len(b.shares))}
	h.expect()
	b.expectNodes(answer)
	before := len(b.state.Planned)
	var bins []*opening
	for _, at := range h.sites(answer) {
		bin := b.openOne(at.pool, at.offering, nil)
		if bin == nil {
			continue
		}
		if at.domain > 0 {
			b.pin(bin.node, key, at.offering)
		}
		bins = append(bins, bin)
		for _, item := range at.items {
			l := &batches[item.Class]
			l.vacancies[at.domain] = append(l.vacancies[at.domain], vacancy{bin, item.N})
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
	for _, l := range b.state.Planned[before:] {
		l.KeepPrice()
	}
	b.fillSlack()
}

// expect finds out how many pods of each batch are to go to which domain.
func (h *batchAssigner) expect() {
	for i := range h.launcher.shares {
		if sh := &h.launcher.shares[i]; sh.key >= 0 && !slices.Contains(h.domains, sh.domain) {
			h.domains = append(h.domains, sh.domain)
		}
	}
	for i := range h.batches {
		l := &h.batches[i]
		l.due, l.vacancies = make([]float64, len(h.domains)+1), make([][]vacancy, len(h.domains)+1)
		for _, n := range l.shares {
			sh := &h.launcher.shares[n]
			h.batchOf[n], h.left[n], h.passOf[n] = i, sh.count, h.pass(&sh.members[0])
			if sh.key >= 0 {
				l.due[h.number(sh.domain)] += float64(sh.count)
			}
		}
	}
	for _, pool := range h.launcher.model.Pools {
		side := make([]int, len(pool.Offerings))
		if h.key >= 0 {
			k, _ := pool.Label(h.launcher.ledger.Keys()[h.key])
			for i, v := range k.Values {
				d := h.number(h.launcher.ledger.Domain(h.key, v))
				for a := range k.Offerings[i].All() {
					side[a] = d
				}
			}
		}
		h.side = append(h.side, side)
	}
}

// number returns the domain's number; 0 if no share goes there.
func (h *batchAssigner) number(domain int32) int { return slices.Index(h.domains, domain) + 1 }

// site is a node to be launched, and the number of the domain that it is launched in.
type site struct {
	pool, offering, domain int
	items                  []cover.Item
}

// keepRounds bounds how often all sites are asked to move.
const keepRounds = 30

// sites returns the nodes of an answer, each in the domain, of those where it costs the same,
// that leaves the fewest pods without a vacancy where they are to go.
func (h *batchAssigner) sites(answer *cover.Solution) []site {
	var sites []site
	for i := range answer.Patterns {
		p := &answer.Patterns[i]
		at, offering := h.launcher.offeringOf(p.Bin)
		for range p.Times {
			s := site{at, offering, h.side[at][offering], p.Items}
			h.expected(&s, -1)
			sites = append(sites, s)
		}
	}
	if len(h.domains) == 0 {
		return sites
	}
	for range keepRounds {
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

// expected notes that one more site has vacancies in its domain: fewer are missing there. One
// takes them back.
func (h *batchAssigner) expected(s *site, sign float64) {
	for _, item := range s.items {
		h.batches[item.Class].due[s.domain] += sign * float64(item.N)
	}
}

// move moves a site to the domain where its vacancies are missed most, and reports whether that
// is another one.
func (h *batchAssigner) move(s *site) bool {
	h.expected(s, 1)
	pool := h.launcher.model.Pools[s.pool]
	t := &pool.Types[pool.TypeOf[s.offering]]
	best, most := *s, h.missed(s)
	for a := t.First; a < t.End; a++ {
		other := site{s.pool, a, h.side[s.pool][a], s.items}
		if other.domain == s.domain || slices.ContainsFunc(s.items, func(item cover.Item) bool {
			return !model.Bitset(h.batches[item.Class].bins[h.launcher.base[s.pool]/64:]).Has(a)
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

// missed returns by how much a site's vacancies lower the sum of the squares of what is missing.
func (h *batchAssigner) missed(s *site) (sum float64) {
	for _, item := range s.items {
		due := max(h.batches[item.Class].due[s.domain], 0)
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
func (h *batchAssigner) pass(m *member) int {
	switch c := m.class; {
	case len(c.Keys) == 0:
		return passes
	case h.key >= 0 && h.launcher.ledger.Joins(c.Index, h.key, m.st.PreferencesFrom):
		return following
	case h.key >= 0 && h.launcher.ledger.Minds(c.Index, h.key, m.st.PreferencesFrom):
		return minding
	case h.launcher.hostname >= 0 && h.launcher.ledger.Minds(c.Index, h.launcher.hostname, m.st.PreferencesFrom):
		return hosting
	}
	return counted
}

// admit places the pods of one pass one by one, each class's in turn over its domains, as
// long as any finds its place.
func (h *batchAssigner) admit(pass int) {
	h.launcher.byClass(func(first, end int) bool { return h.passOf[first] == pass && h.round(first, end) })
}

// round gives each of the class's shares one place. It reports whether any found one.
func (h *batchAssigner) round(first, end int) (progress bool) {
	for i := first; i < end; i++ {
		if h.left[i] > 0 && h.assignAny(i) {
			h.left[i]--
			progress = true
		}
	}
	return progress
}

// assignAny gives one pod of a share any of the vacancies of its batch, in the domain that it was
// to go to if its rules still allow that.
func (h *batchAssigner) assignAny(i int) bool {
	sh := &h.launcher.shares[i]
	first := 0
	if sh.key >= 0 {
		first = h.number(sh.domain)
	}
	if h.assignIn(first, i) {
		return true
	}
	if h.passOf[i] == following {
		return false
	}
	for d := range len(h.domains) + 1 {
		if d != first && h.assignIn(d, i) {
			return true
		}
	}
	return false
}

// assignIn gives one pod of a share a vacancy in a domain.
func (h *batchAssigner) assignIn(domain, i int) bool {
	l := &h.batches[h.batchOf[i]]
	for n := range l.vacancies[domain] {
		s := &l.vacancies[domain][n]
		if h.admits(s.bin, i) {
			h.count(s.bin, i, 1)
			l.assignments = append(l.assignments, assignment{s.bin, int32(i)})
			if s.left--; s.left == 0 {
				l.vacancies[domain] = slices.Delete(l.vacancies[domain], n, n+1)
			}
			return true
		}
		if h.launcher.hostname < 0 || !slices.Contains(h.launcher.shares[i].members[0].class.Keys, h.launcher.hostname) {
			break // the other nodes of the domain will not do either
		}
	}
	return false
}

// admits reports whether the rules between pods let one more of a share onto a node.
func (h *batchAssigner) admits(bin *opening, i int) bool {
	m := &h.launcher.shares[i].members[0]
	return h.launcher.topo.Check(m.class, m.st, &bin.node.Domains).IsYes()
}

// count notes that n more pods of a share are on a node.
func (h *batchAssigner) count(bin *opening, i int, n int32) {
	h.launcher.topo.MakePresent(bin.node)
	h.launcher.ledger.Count(h.launcher.shares[i].members[0].class.Index, &bin.node.Domains, n, 0)
}

// exchange gives pods that are left the assignments of others of their batch, who go to vacancies that
// are left.
func (h *batchAssigner) exchange() {
	for i := range h.launcher.shares {
		for h.left[i] > 0 && h.passOf[i] < passes && h.exchangeOne(i) {
			h.left[i]--
		}
	}
}

func (h *batchAssigner) exchangeOne(i int) bool {
	l := &h.batches[h.batchOf[i]]
	for n := range l.assignments {
		bin, other := l.assignments[n].bin, int(l.assignments[n].share)
		if h.launcher.shares[other].members[0].class == h.launcher.shares[i].members[0].class {
			continue
		}
		h.count(bin, other, -1)
		if h.admits(bin, i) {
			h.count(bin, i, 1)
			if h.assignAny(other) {
				l.assignments[n].share = int32(i)
				return true
			}
			h.count(bin, i, -1)
		}
		h.count(bin, other, 1)
	}
	return false
}

// give puts the pods on their assignments.
func (h *batchAssigner) give() {
	for n := range h.batches {
		for _, s := range h.batches[n].assignments {
			m := &h.launcher.shares[s.share].members[0]
			if !h.launcher.put(s.bin, m) {
				h.count(s.bin, int(s.share), -1)
			}
		}
	}
}

// stuffPlain gives the places that are left to the pods that no rule concerns.
func (h *batchAssigner) stuffPlain() {
	for i := range h.batches {
		l := &h.batches[i]
		for _, n := range l.shares {
			sh := &h.launcher.shares[n]
			if len(sh.members[0].class.Keys) > 0 {
				continue
			}
			for d := range l.vacancies {
				for n := range l.vacancies[d] {
					s := &l.vacancies[d][n]
					s.left = h.launcher.fillByMeanSize(s.bin, sh, s.left)
				}
			}
		}
	}
}
