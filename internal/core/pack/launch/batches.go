package launch

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
)

// Where rules between pods divide them into very many small shares, what must be launched depends
// on the pods' sizes, and on the few rules that keep the most pods apart. So nodes are launched
// for batches of shares of one size. Which pod of a batch goes to which of their vacancies is
// decided afterwards, by the rules.

const (
	// lowEffortShares is how many shares a batch must have on average, for batches to be used.
	lowEffortShares = 8
	// lowEffortBatches is up to how many batches the problem is solved well with little effort.
	lowEffortBatches = 64
	// lowEffortColumns, lowEffortImprove and lowEffortSearches are the effort for that.
	lowEffortColumns, lowEffortImprove, lowEffortSearches = 60, 100, 100_000
)

// batch is shares that are one item of the problem: they are of one size, and differ in rules
// only that are expected to leave enough vacancies.
type batch struct {
	shares []int // by index
	count  int
	bins   []uint64 // the offerings where the pods may be
	// due is, by domain, how many pods are to go there more than there are vacancies.
	due []float64
	// vacancies are, by domain, on the nodes of the answer; those at 0 are in none of the domains.
	vacancies   [][]vacancy
	assignments []assignment
}

// assignment is one pod of a share on a node.
type assignment struct {
	bin   *opening
	share int32
}

// vacancy is room on a node for so many pods of the batch.
type vacancy struct {
	bin  *opening
	left int
}

// launchBatches launches nodes for batches of shares, if there are very many shares and few
// batches. It returns false if it did nothing.
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

// batchKey returns the one topology key, besides the hostname, that divides shares; -1: none does.
// It returns false if several do, if a NodePool has limits or minValues, or if a type's price
// depends on its domain.
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

// batches groups the shares, and returns for each batch one share that represents it.
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

// batchAssigner assigns the pods of batches to the vacancies of an answer.
type batchAssigner struct {
	launcher *launcher
	batches  []batch
	key      int
	domains  []int32 // of the key; the number of a domain is one more than its index here
	side     [][]int // by pool and offering: the number of its domain; 0: none of them
	batchOf  []int   // by share
	left     []int   // by share: unplaced pods
	roundOf  []int   // by share: in which round its pods are admitted
}

// openBatches turns an answer for batches into planned nodes.
func (b *launcher) openBatches(answer *cover.Solution, batches []batch, key int) {
	h := &batchAssigner{launcher: b, batches: batches, key: key, batchOf: make([]int, len(b.shares)), left: make([]int, len(b.shares)), roundOf: make([]int, len(b.shares))}
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
	for round := range rounds {
		h.admit(round)
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

// expect notes how many pods of each batch are to go to which domain.
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
			h.batchOf[n], h.left[n], h.roundOf[n] = i, sh.count, h.admissionRound(&sh.members[0])
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

// number returns the number of a domain; 0: no share goes there.
func (h *batchAssigner) number(domain int32) int { return slices.Index(h.domains, domain) + 1 }

// site is a node of an answer, and the number of the domain that it is in.
type site struct {
	pool, offering, domain int
	items                  []cover.Item
}

// keepRounds bounds how often each site is moved to a better domain.
const keepRounds = 30

// sites returns the nodes of an answer. Each is in one of the domains where it costs the same,
// such that few pods are left without a vacancy in the domain that they are to go to.
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

// expected adds the vacancies of a site to its domain, times the sign: -1 makes fewer due there,
// 1 takes that back.
func (h *batchAssigner) expected(s *site, sign float64) {
	for _, item := range s.items {
		h.batches[item.Class].due[s.domain] += sign * float64(item.N)
	}
}

// move moves a site to the domain where its vacancies are needed most, and reports whether that
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

// missed returns by how much a site's vacancies would lower the sum of the squares of what is due.
func (h *batchAssigner) missed(s *site) (sum float64) {
	for _, item := range s.items {
		due := max(h.batches[item.Class].due[s.domain], 0)
		rest := max(due-float64(item.N), 0)
		sum += due*due - rest*rest
	}
	return sum
}

// The rounds in which pods with rules are admitted, those with the strictest rules first.
const (
	following = iota // they must be with other pods in their domain
	minding          // they have another rule on their domain
	hosting          // they have a rule on the hostname
	counted          // they only count in the rules of others
	rounds
)

// admissionRound returns the round in which a class is admitted; rounds: no rule concerns it.
func (h *batchAssigner) admissionRound(m *member) int {
	switch c := m.class; {
	case len(c.Keys) == 0:
		return rounds
	case h.key >= 0 && h.launcher.ledger.Joins(c.Index, h.key, m.st.PreferencesFrom):
		return following
	case h.key >= 0 && h.launcher.ledger.Minds(c.Index, h.key, m.st.PreferencesFrom):
		return minding
	case h.launcher.hostname >= 0 && h.launcher.ledger.Minds(c.Index, h.launcher.hostname, m.st.PreferencesFrom):
		return hosting
	}
	return counted
}

// admit assigns the pods of one round one by one, as long as rules between pods allow any: of
// each class one pod for each share, and again.
func (h *batchAssigner) admit(round int) {
	h.launcher.byClass(func(first, end int) bool { return h.roundOf[first] == round && h.assignEach(first, end) })
}

// assignEach assigns one pod of each of a class's shares. It reports whether it assigned any.
func (h *batchAssigner) assignEach(first, end int) (progress bool) {
	for i := first; i < end; i++ {
		if h.left[i] > 0 && h.assignAny(i) {
			h.left[i]--
			progress = true
		}
	}
	return progress
}

// assignAny assigns one pod of a share to any vacancy of its batch: in the domain of the share if
// its rules still allow that, else in another.
func (h *batchAssigner) assignAny(i int) bool {
	sh := &h.launcher.shares[i]
	first := 0
	if sh.key >= 0 {
		first = h.number(sh.domain)
	}
	if h.assignIn(first, i) {
		return true
	}
	if h.roundOf[i] == following {
		return false
	}
	for d := range len(h.domains) + 1 {
		if d != first && h.assignIn(d, i) {
			return true
		}
	}
	return false
}

// assignIn assigns one pod of a share to a vacancy in a domain.
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

// admits reports whether rules between pods allow one more pod of a share on a node.
func (h *batchAssigner) admits(bin *opening, i int) bool {
	m := &h.launcher.shares[i].members[0]
	return h.launcher.topo.Check(m.class, m.st, &bin.node.Domains).IsYes()
}

// count adds n pods of a share on a node to the topology counts.
func (h *batchAssigner) count(bin *opening, i int, n int32) {
	h.launcher.topo.MakePresent(bin.node)
	h.launcher.ledger.Count(h.launcher.shares[i].members[0].class.Index, &bin.node.Domains, n, 0)
}

// exchange assigns pods that are left where others of their batch are, and those to vacancies
// that are left.
func (h *batchAssigner) exchange() {
	for i := range h.launcher.shares {
		for h.left[i] > 0 && h.roundOf[i] < rounds && h.exchangeOne(i) {
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

// give puts the pods on the nodes that they are assigned to.
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

// stuffPlain fills the vacancies that are left with the pods that no rule concerns.
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
