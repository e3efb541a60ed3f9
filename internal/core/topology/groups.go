package topology

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// kind is what a group counts and how it is asked.
type kind uint8

const (
	// spreading counts selected pods on nodes that the owner's policies admit.
	spreading kind = iota
	// attracting counts pods that match all affinity terms of the owner.
	attracting
	// repelling counts pods that match one anti-affinity term of the owner.
	repelling
	// repelled counts the owners of one anti-affinity term; pods that it selects keep away.
	repelled
)

// group is one count by domain. Classes whose rules look at the same pods share it.
type group struct {
	kind kind
	key  int // index into Ledger.keys
	// counts, by domain; where it ends there are none.
	counts []int32
	total  int32
	// maybe are further pods that could be in a domain: their machine may be there. It can
	// be shorter than counts.
	maybe []int32

	// Of spreading only.
	maxSkew, minDomains int32
	// owner is the class whose policies say which nodes count. Classes share a group only
	// when their policies say the same.
	owner                       int
	ignoreAffinity, honorTaints bool
	// present are the domains of machines that count, possible those that could be bought;
	// buyable reports whether there is any of the latter.
	present, possible []bool
	buyable           bool
	// awaited are the domains that unsettled machines that count may be in. It can be
	// shorter than present.
	awaited []bool
	// owners counts by domain the pods whose spread it is.
	owners []int32
	// floor is what a machine that is bought in a possible domain brings; missing: nothing.
	floor map[int32]int32
}

// use is a class's own interest in a group.
type use struct {
	group int
	// self is 1 if the class's own pods are counted there.
	self int32
	// preference is the index of the preference that the rule comes from; -1: it is required.
	preference int
}

// classRules is what a class asks of groups, and which groups count its pods.
type classRules struct {
	spread, repelling, repelled []use
	// attracting are all terms of required affinity together, then each preference by itself.
	attracting []affinity
	// counted are the groups in which a pod of the class counts.
	counted []int
	// mindsHosts: one of the uses is on the hostname.
	mindsHosts bool
	// weight is the effort of asking about all rules once.
	weight int
}

// weigh notes how many rules there are.
func (r *classRules) weigh() {
	r.weight = 1
	r.uses(func(use) { r.weight++ })
}

// affinity is a set of terms that one pod must match all of.
type affinity struct {
	uses       []use
	preference int
	// self: the class's own pods match all the terms, so the first may start a domain.
	self bool
}

// builder makes the groups of a ledger.
type builder struct {
	*Ledger
	byName map[string]int
	name   []byte // of the group at hand
	// byLabel are the classes by the labels they have; nil: not asked yet. every is all classes.
	byLabel map[labelled][]int
	every   []int
	uses    short[use]
	numbers short[int]
	matters []bool // by class: whether anyone asks about it
	filled  []bool // by group: whether the classes are noted that count in it
	running *running
}

// short makes lists that mostly have one element. Memory is taken for shortMany at once.
type short[T any] struct{ free []T }

const shortMany = 128

// add appends to a list.
func (s *short[T]) add(list []T, v T) []T {
	if len(list) > 0 {
		return append(list, v)
	}
	if len(s.free) == 0 {
		s.free = make([]T, shortMany)
	}
	list, s.free = s.free[:1:1], s.free[1:]
	list[0] = v
	return list
}

type labelled struct{ key, value string }

func newBuilder(l *Ledger, matters func(class int) bool) *builder {
	b := &builder{Ledger: l, byName: map[string]int{}, matters: make([]bool, len(l.constraintSets)), every: make([]int, len(l.constraintSets))}
	for c := range b.every {
		b.every[c], b.matters[c] = c, matters(c)
	}
	return b
}

// sort finds out which labels the classes have.
func (b *builder) sort() {
	b.byLabel = map[labelled][]int{}
	for c, sh := range b.constraintSets {
		for key, value := range sh.Labels {
			at := labelled{key, value}
			b.byLabel[at] = b.numbers.add(b.byLabel[at], c)
		}
	}
}

// fewConstraints is of how many pod constraints each is asked whether a selector selects it.
const fewConstraints = 64

// candidates returns classes among which are all that the selector selects, in order.
func (b *builder) candidates(s *cluster.Selector) []int {
	if len(b.constraintSets) <= fewConstraints {
		return b.every
	}
	if b.byLabel == nil {
		b.sort()
	}
	best := b.every
	for key, q := range s.Requirements {
		if value, only := q.Only(); only && !q.AllowsAbsence() {
			if with := b.byLabel[labelled{key, value}]; len(with) < len(best) {
				best = with
			}
		}
	}
	return best
}

// effortOf is the effort of asking whether a term selects a pod.
func effortOf(t *cluster.PodTerm) int {
	return 1 + len(t.Selector.Requirements) + len(t.NamespaceSelector.Requirements) + len(t.Namespaces)/numbersUnit
}

// selects reports whether the term selects a pod of the constraints.
func (b *builder) selects(t *cluster.PodTerm, sh *cluster.Constraints) bool {
	in := slices.Contains(t.Namespaces, sh.Namespace)
	if !in && t.NamespaceSelector.Some {
		labels, known := b.namespaces[sh.Namespace]
		in = known && t.NamespaceSelector.Selects(labels)
		// An empty selector selects every namespace, also one that is not known yet.
		in = in || len(t.NamespaceSelector.Requirements) == 0
	}
	return in && t.Selector.Selects(sh.Labels)
}

// group returns the group of the name that is in the buffer, making it if need be.
func (b *builder) group(g group) int {
	b.meter.Spend(1 + len(b.name)/numbersUnit)
	if i, ok := b.byName[string(b.name)]; ok {
		return i
	}
	i := len(b.groups)
	b.byName[string(b.name)] = i
	b.groups, b.filled = append(b.groups, g), append(b.filled, false)
	return i
}

// fill calls f for each class that a selector and the rest of its rule select, unless that
// has been done for the group, or nobody asks about it: of those that matter neither the class
// whose rule it is, which are read first, nor one of its namespace that it selects. Each class
// that is asked costs so much effort.
func (b *builder) fill(group, class int, s *cluster.Selector, each int, selects func(class int) bool, f func(class int)) {
	if b.filled[group] {
		return
	}
	b.filled[group] = true
	if !b.matters[class] {
		mine := b.running.among(&cluster.PodTerm{Selector: *s, Namespaces: []string{b.constraintSets[class].Namespace}})
		if b.meter.Spend(1 + len(mine)*each); !slices.ContainsFunc(mine, selects) {
			return
		}
	}
	among := b.candidates(s)
	b.meter.Spend(1 + len(among)*each)
	for _, c := range among {
		if selects(c) {
			f(c)
		}
	}
}

// call begins a name in the buffer.
func (b *builder) call(parts ...string) {
	b.name = b.name[:0]
	b.more(parts...)
}

// more adds parts to the name.
func (b *builder) more(parts ...string) {
	for _, p := range parts {
		b.name = append(b.name, p...)
		b.name = append(b.name, '|')
	}
}

// term adds a term to the name.
func (b *builder) term(t *cluster.PodTerm) {
	b.more(t.Key)
	b.selector(&t.Selector)
	namespaces := t.Namespaces
	b.meter.Spend(len(namespaces))
	if len(namespaces) > 1 {
		namespaces = slices.Sorted(slices.Values(namespaces))
	}
	for _, ns := range namespaces {
		b.name = append(append(b.name, ns...), ',')
	}
	b.more("")
	b.selector(&t.NamespaceSelector)
}

// selector adds a selector to the name.
func (b *builder) selector(s *cluster.Selector) {
	if !s.Some {
		b.more("none")
		return
	}
	if len(s.Requirements) == 1 { // as nearly all are
		for key, q := range s.Requirements {
			if value, only := q.Only(); only && !q.AllowsAbsence() {
				b.more("only", key, value)
				return
			}
		}
	}
	b.meter.Spend(s.Requirements.Weight())
	b.more("some", s.Requirements.String())
}

// addSpread adds the group of one spread constraint of a class.
func (b *builder) addSpread(class int, sp *cluster.Spread, preference int) {
	sh := b.constraintSets[class]
	b.call("spread", sh.Namespace, sp.Key)
	b.selector(&sp.Selector)
	if !sp.IgnoreAffinity {
		b.more("affinity")
		for _, t := range sh.CountedTerms() {
			if b.more("or"); len(t) > 0 {
				b.more(t.String())
			}
		}
	}
	if sp.HonorTaints {
		b.more("taints")
		for _, t := range sh.Tolerations {
			b.more(t.String())
		}
	}
	b.name = strconv.AppendInt(b.name, int64(sp.MaxSkew), 10)
	b.more("")
	b.name = strconv.AppendInt(b.name, int64(sp.MinDomains), 10)
	i := b.group(group{
		kind: spreading, key: b.keyOf(sp.Key), maxSkew: sp.MaxSkew, minDomains: sp.MinDomains, owner: class,
		ignoreAffinity: sp.IgnoreAffinity, honorTaints: sp.HonorTaints,
	})
	u := use{group: i, preference: preference}
	if sp.Selector.Selects(sh.Labels) {
		u.self = 1
	}
	b.rules[class].spread = b.uses.add(b.rules[class].spread, u)
	b.fill(i, class, &sp.Selector, 1+len(sp.Selector.Requirements), func(c int) bool {
		other := b.constraintSets[c]
		return other.Namespace == sh.Namespace && sp.Selector.Selects(other.Labels)
	}, func(c int) { b.countNew(c, i) })
}

// addAffinity adds the groups of a set of affinity terms that pods must match together.
func (b *builder) addAffinity(class int, terms []cluster.PodTerm, preference int) {
	if len(terms) == 0 {
		return
	}
	matchesAll := func(sh *cluster.Constraints) bool {
		return !slices.ContainsFunc(terms, func(t cluster.PodTerm) bool { return !b.selects(&t, sh) })
	}
	a := affinity{preference: preference, self: matchesAll(b.constraintSets[class])}
	each := 0
	for i := range terms {
		each += effortOf(&terms[i])
	}
	for i := range terms {
		b.call("affinity", terms[i].Key)
		for j := range terms {
			b.term(&terms[j])
		}
		g := b.group(group{kind: attracting, key: b.keyOf(terms[i].Key)})
		u := use{group: g, preference: preference}
		if a.self {
			u.self = 1
		}
		a.uses = append(a.uses, u)
		b.fill(g, class, &terms[i].Selector, each, func(c int) bool { return matchesAll(b.constraintSets[c]) }, func(c int) { b.countNew(c, g) })
	}
	b.rules[class].attracting = append(b.rules[class].attracting, a)
}

// addAntiAffinity adds the two groups of an anti-affinity term: the pods it selects, from
// which the owner keeps away, and, if it is required, its owners, from which those keep away.
// A term that selects none of all classes keeps nobody apart: there is nothing to ask.
func (b *builder) addAntiAffinity(class int, t *cluster.PodTerm, preference int) {
	b.call("anti")
	b.term(t)
	if b.selectsNone(class, t) {
		return
	}
	selected := b.group(group{kind: repelling, key: b.keyOf(t.Key)})
	selects := func(c int) bool { return b.selects(t, b.constraintSets[c]) }
	u := use{group: selected, preference: preference}
	if selects(class) {
		u.self = 1
	}
	b.rules[class].repelling = b.uses.add(b.rules[class].repelling, u)
	b.fill(selected, class, &t.Selector, effortOf(t), selects, func(c int) { b.countNew(c, selected) })
	if preference >= 0 {
		return
	}
	b.call("owners")
	b.term(t)
	owners := b.group(group{kind: repelled, key: b.keyOf(t.Key)})
	b.count(class, owners)
	b.fill(owners, class, &t.Selector, effortOf(t), selects, func(c int) {
		b.keepAway(c, owners)
	})
}

// selectsNone reports whether a term of a class, whose name is in the buffer, selects no class.
func (b *builder) selectsNone(class int, t *cluster.PodTerm) bool {
	if g, known := b.byName[string(b.name)]; known {
		return g < 0
	}
	if b.selects(t, b.constraintSets[class]) { // as it mostly is
		return false
	}
	for _, c := range b.candidates(&t.Selector) {
		b.meter.Spend(effortOf(t))
		if b.selects(t, b.constraintSets[c]) {
			return false
		}
	}
	b.byName[string(b.name)] = -1
	return true
}

// count notes that pods of the class count in the group, if that is not known.
func (b *builder) count(class, group int) {
	if !b.owns(class, group) {
		b.countNew(class, group)
	}
}

// countNew notes that pods of the class count in a group in which they did not so far.
func (b *builder) countNew(class, group int) {
	b.rules[class].counted = b.numbers.add(b.rules[class].counted, group)
}
