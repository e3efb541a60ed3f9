package topology

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// builder makes the groups of a ledger: one for each different rule.
type builder struct {
	ledger     *Ledger
	namespaces map[string]map[string]string // labels of each namespace
	byName     map[string]int
	name       name // of the group at hand
	// every is all classes. all finds them by label, mine finds those that matter; both are
	// nil until they are needed.
	every     []int
	all, mine *index
	uses      short[use]
	numbers   short[int]
	matters   []bool // by class: whether anyone asks about it
	filled    []bool // by group: whether the classes are noted that count in it
}

func newBuilder(l *Ledger, namespaces map[string]map[string]string, matters func(class int) bool) *builder {
	n := len(l.constraintSets)
	b := &builder{
		ledger: l, namespaces: namespaces, byName: map[string]int{}, name: name{meter: l.meter},
		matters: make([]bool, n), every: make([]int, n),
	}
	for c := range b.every {
		b.every[c], b.matters[c] = c, matters(c)
	}
	return b
}

// keyOf returns the index of a key, which it adds to the ledger's if need be.
func (b *builder) keyOf(key string) int {
	l := b.ledger
	if i := slices.Index(l.keys, key); i >= 0 {
		return i
	}
	l.keys = append(l.keys, key)
	l.domains = append(l.domains, map[string]int32{})
	l.shared, l.sizes = append(l.shared, false), append(l.sizes, 0)
	return len(l.keys) - 1
}

// known returns the group that has the name in the buffer.
func (b *builder) known() (group int, ok bool) {
	group, ok = b.byName[string(b.name.text)]
	return group, ok
}

// group returns the group that has the name in the buffer. If there is none, it adds g under
// the topology key.
func (b *builder) group(key string, g group) int {
	l := b.ledger
	l.meter.Spend(1 + len(b.name.text)/numbersUnit)
	if i, ok := b.known(); ok {
		return i
	}
	g.key, g.onHosts = b.keyOf(key), key == label.Hostname
	i := len(l.groups)
	b.byName[string(b.name.text)] = i
	l.groups, b.filled = append(l.groups, g), append(b.filled, false)
	return i
}

// fewConstraints is up to how many pod constraints each is asked whether a selector selects it.
const fewConstraints = 64

// candidates returns classes among which are all that the selector selects, in order.
func (b *builder) candidates(s *cluster.Selector) []int {
	if len(b.every) <= fewConstraints {
		return b.every
	}
	if b.all == nil {
		b.all = newIndex(b.ledger.constraintSets, b.every, &b.numbers)
	}
	return b.all.fewest(s, b.every)
}

// selects reports whether the term selects pods of the class.
func (b *builder) selects(t *cluster.PodTerm, class int) bool {
	sh := b.ledger.constraintSets[class]
	return t.Selects(sh.Namespace, sh.Labels, b.namespaces)
}

// rule is which pods a rule of a class selects.
type rule struct {
	class    int
	selector *cluster.Selector
	selects  func(class int) bool // the selector, and whatever else the rule asks
	effort   int                  // of asking about one class
}

// fill calls f once for each class that the rule selects. It does nothing for a group that is
// filled, and for one that nobody asks about: where the class that has the rule does not matter,
// and it selects no class of its namespace that does.
func (b *builder) fill(group int, r rule, f func(class int)) {
	if b.filled[group] {
		return
	}
	b.filled[group] = true
	meter := b.ledger.meter
	if !b.matters[r.class] {
		mine := b.mine.among(&cluster.PodTerm{Selector: *r.selector, Namespaces: []string{b.ledger.constraintSets[r.class].Namespace}})
		if meter.Spend(1 + len(mine)*r.effort); !slices.ContainsFunc(mine, r.selects) {
			return
		}
	}
	among := b.candidates(r.selector)
	meter.Spend(1 + len(among)*r.effort)
	for _, c := range among {
		if r.selects(c) {
			f(c)
		}
	}
}

// addSpread adds the group of one spread constraint of a class.
func (b *builder) addSpread(class int, sp *cluster.Spread, preference int) {
	sh := b.ledger.constraintSets[class]
	b.nameSpread(sh, sp)
	i := b.group(sp.Key, group{
		kind: spreading, maxSkew: sp.MaxSkew, minDomains: sp.MinDomains, owner: class,
		ignoreAffinity: sp.IgnoreAffinity, honorTaints: sp.HonorTaints,
	})
	u := use{group: i, preference: preference}
	if sp.Selector.Selects(sh.Labels) {
		u.self = 1
	}
	rules := &b.ledger.rules[class]
	rules.spread = b.uses.add(rules.spread, u)
	selects := func(c int) bool {
		other := b.ledger.constraintSets[c]
		return other.Namespace == sh.Namespace && sp.Selector.Selects(other.Labels)
	}
	b.fill(i, rule{class, &sp.Selector, selects, 1 + len(sp.Selector.Requirements)}, func(c int) { b.countNew(c, i) })
}

// nameSpread writes the name of a spread's group into the buffer.
func (b *builder) nameSpread(sh *cluster.Constraints, sp *cluster.Spread) {
	n := &b.name
	n.begin("spread", sh.Namespace, sp.Key)
	n.addSelector(&sp.Selector)
	if !sp.IgnoreAffinity {
		n.add("affinity")
		for _, t := range sh.CountedTerms() {
			if n.add("or"); len(t) > 0 {
				n.add(t.String())
			}
		}
	}
	if sp.HonorTaints {
		n.add("taints")
		for _, t := range sh.Tolerations {
			n.add(t.String())
		}
	}
	n.text = strconv.AppendInt(n.text, int64(sp.MaxSkew), 10)
	n.add("")
	n.text = strconv.AppendInt(n.text, int64(sp.MinDomains), 10)
}

// addAffinity adds the groups of a set of affinity terms that pods must match together.
func (b *builder) addAffinity(class int, terms []cluster.PodTerm, preference int) {
	if len(terms) == 0 {
		return
	}
	matchesAll := func(c int) bool {
		return !slices.ContainsFunc(terms, func(t cluster.PodTerm) bool { return !b.selects(&t, c) })
	}
	a := affinity{preference: preference, self: matchesAll(class)}
	each := 0
	for i := range terms {
		each += effortOf(&terms[i])
	}
	for i := range terms {
		b.name.begin("affinity", terms[i].Key)
		for j := range terms {
			b.name.addTerm(&terms[j])
		}
		g := b.group(terms[i].Key, group{kind: attracting})
		u := use{group: g, preference: preference}
		if a.self {
			u.self = 1
		}
		a.uses = append(a.uses, u)
		b.fill(g, rule{class, &terms[i].Selector, matchesAll, each}, func(c int) { b.countNew(c, g) })
	}
	rules := &b.ledger.rules[class]
	rules.attracting = append(rules.attracting, a)
}

// addAntiAffinity adds the groups of an anti-affinity term. One counts the pods that the term
// selects: its owner keeps away from them. If the term is required, another counts its owners:
// the pods that it selects keep away from these. A term that selects none of all classes keeps
// nobody apart and gets no group.
func (b *builder) addAntiAffinity(class int, t *cluster.PodTerm, preference int) {
	b.name.begin("anti")
	b.name.addTerm(t)
	if b.selectsNone(class, t) {
		return
	}
	selected := b.group(t.Key, group{kind: repelling})
	selects := func(c int) bool { return b.selects(t, c) }
	u := use{group: selected, preference: preference}
	if selects(class) {
		u.self = 1
	}
	rules := &b.ledger.rules[class]
	rules.repelling = b.uses.add(rules.repelling, u)
	r := rule{class, &t.Selector, selects, effortOf(t)}
	b.fill(selected, r, func(c int) { b.countNew(c, selected) })
	if preference >= 0 {
		return
	}
	b.name.begin("owners")
	b.name.addTerm(t)
	owners := b.group(t.Key, group{kind: repelled})
	b.count(class, owners)
	b.fill(owners, r, func(c int) { b.keepAway(c, owners) })
}

// selectsNone reports whether a term of a class selects no class. Its name is in the buffer.
func (b *builder) selectsNone(class int, t *cluster.PodTerm) bool {
	if g, known := b.known(); known {
		return g < 0
	}
	if b.selects(t, class) { // as it mostly does
		return false
	}
	for _, c := range b.candidates(&t.Selector) {
		b.ledger.meter.Spend(effortOf(t))
		if b.selects(t, c) {
			return false
		}
	}
	b.byName[string(b.name.text)] = -1
	return true
}

// count notes that pods of the class count in the group, if that is not known.
func (b *builder) count(class, group int) {
	if !b.ledger.Sees(group, class) {
		b.countNew(class, group)
	}
}

// countNew notes that pods of the class count in a group in which they did not so far.
func (b *builder) countNew(class, group int) {
	rules := &b.ledger.rules[class]
	rules.counted = b.numbers.add(rules.counted, group)
}

// keepAway notes that pods of the class keep away from those that the group counts.
func (b *builder) keepAway(class, group int) {
	rules := &b.ledger.rules[class]
	rules.repelled = b.uses.add(rules.repelled, use{group: group, preference: -1})
}
