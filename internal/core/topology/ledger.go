package topology

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Domains of a place that are not numbers of domains.
const (
	// None: the machine does not have the key.
	None int32 = -1
	// Open: the machine is yet to be bought and may be in one of several domains.
	Open int32 = -2
	// Undetermined: the machine is bought, and the cloud has not said in which of several
	// domains it is. What holds has to hold in each.
	Undetermined int32 = -3
)

// Ledger counts pods by domain. Classes are indexes into the pod constraints it was made with.
type Ledger struct {
	constraintSets []*cluster.Constraints
	namespaces     map[string]map[string]string
	keys           []string
	domains        []map[string]int32 // by key
	shared         []bool             // by key: a clone has the same domains, so none may be added
	sizes          []int32            // by key: how many domains
	groups         []group
	rules          []classRules
	spreads        [][]int // by key: the spreading groups that are asked about
	asked          []bool  // by group
	keysAsked      []bool  // by key: some group that is asked about has it
	keySets        [][]int // that classes have, for others
	scratch        []int
	// meter is what all that is asked and counted is taken from.
	meter *effort.Meter
	// soldOut: domains in which machines could be bought count no more.
	soldOut bool
}

// numbersUnit is how many numbers are copied, or compared in a row, for a unit of effort.
const numbersUnit = 16

// keySetsMax is how many sets of keys are kept to be shared.
const keySetsMax = 16

// Place is where a pod may be: a machine's domain for each key of the ledger.
type Place struct {
	Domain []int32
	// Counts tells for each spreading group whether the machine counts in it. Nil: in all.
	Counts []bool
	// Doubt tells for each spreading group whether the machine may yet turn out not to
	// count. Nil: in none.
	Doubt []bool
	// May has, by group, the domains in which an unsettled machine may be and count. Nil:
	// the machine is settled.
	May [][]int32
}

// New returns the ledger of all rules that pods of these pod constraints have. Shapes that only
// run, and are not to be placed, belong in it too: others' rules count them.
func New(constraintSets []*cluster.Constraints, namespaces map[string]map[string]string) *Ledger {
	return NewFor(constraintSets, namespaces, nil, func(int) bool { return true })
}

// NewFor is New that counts only what some class asks about that matters says yes to. The
// other classes are counted where those look, but must not be asked about themselves. The
// work, and all that the ledger is asked later, is taken from the meter.
func NewFor(constraintSets []*cluster.Constraints, namespaces map[string]map[string]string, meter *effort.Meter, matters func(class int) bool) *Ledger {
	l := &Ledger{constraintSets: constraintSets, namespaces: namespaces, rules: make([]classRules, len(constraintSets)), meter: meter}
	b := newBuilder(l, matters)
	for c, sh := range constraintSets {
		if !b.matters[c] {
			continue
		}
		for i := range sh.Spread {
			b.addSpread(c, &sh.Spread[i], -1)
		}
		b.addAffinity(c, sh.Affinity, -1)
		for i := range sh.AntiAffinity {
			b.addAntiAffinity(c, &sh.AntiAffinity[i], -1)
		}
		for w := range sh.Preferences {
			switch preference := &sh.Preferences[w]; {
			case preference.Spread != nil:
				b.addSpread(c, preference.Spread, w)
			case preference.Affinity != nil:
				b.addAffinity(c, []cluster.PodTerm{*preference.Affinity}, w)
			case preference.AntiAffinity != nil:
				b.addAntiAffinity(c, preference.AntiAffinity, w)
			}
		}
	}
	b.addRunning()
	for c := range l.rules {
		r := &l.rules[c]
		r.uses(func(u use) { r.mindsHosts = r.mindsHosts || l.isHostname(l.groups[u.group].key) })
		r.weigh()
	}
	l.spreads = make([][]int, len(l.keys))
	for g := range l.groups {
		if gr := &l.groups[g]; gr.kind == spreading {
			l.spreads[gr.key] = append(l.spreads[gr.key], g)
		}
	}
	l.onlyFor(b.matters)
	return l
}

// onlyFor forgets the groups that no class that matters asks about, but for their numbers.
func (l *Ledger) onlyFor(matters []bool) {
	l.asked, l.keysAsked = make([]bool, len(l.groups)), make([]bool, len(l.keys))
	for c := range l.rules {
		if matters[c] {
			l.rules[c].each(func(group int) { l.asked[group], l.keysAsked[l.groups[group].key] = true, true })
		}
	}
	unasked := func(group int) bool { return !l.asked[group] }
	for c := range l.rules {
		if r := &l.rules[c]; !matters[c] {
			r.counted = slices.DeleteFunc(r.counted, unasked)
			r.spread = slices.DeleteFunc(r.spread, func(u use) bool { return unasked(u.group) })
		}
	}
	for k := range l.spreads {
		l.spreads[k] = slices.DeleteFunc(l.spreads[k], unasked)
	}
}

// Counts reports whether pods of the class count anywhere that someone asks about.
func (l *Ledger) Counts(class int) bool {
	return len(l.rules[class].counted) > 0 || len(l.rules[class].spread) > 0
}

// asks reports whether anyone asks about a group.
func (l *Ledger) asks(group int) bool { return l.asked[group] }

// AsksOf reports whether anyone asks in which domain of a key a machine is.
func (l *Ledger) AsksOf(key int) bool { return l.keysAsked[key] }

// each calls f for each group that matters to the class or in which its pods count. Some
// come more than once.
func (r *classRules) each(f func(group int)) {
	r.uses(func(u use) { f(u.group) })
	for _, g := range r.counted {
		f(g)
	}
}

// uses calls f for each use that the class has for a group.
func (r *classRules) uses(f func(u use)) {
	for _, uses := range [...][]use{r.spread, r.repelling, r.repelled} {
		for _, u := range uses {
			f(u)
		}
	}
	for i := range r.attracting {
		for _, u := range r.attracting[i].uses {
			f(u)
		}
	}
}

// Keys returns the label keys that rules mention; a Place has a domain for each.
func (l *Ledger) Keys() []string { return l.keys }

// KeysOf returns the indexes of the keys on which a class's place matters: it has a rule
// on them, or others count its pods there. Classes may share the list.
func (l *Ledger) KeysOf(class int) []int {
	l.scratch = l.scratch[:0]
	note := func(group int) {
		if k := l.groups[group].key; !slices.Contains(l.scratch, k) {
			l.scratch = append(l.scratch, k)
		}
	}
	l.rules[class].each(note)
	if len(l.scratch) == 0 {
		return nil
	}
	slices.Sort(l.scratch)
	for _, o := range l.keySets {
		if slices.Equal(o, l.scratch) {
			return o
		}
	}
	keys := slices.Clip(slices.Clone(l.scratch))
	if len(l.keySets) < keySetsMax {
		l.keySets = append(l.keySets, keys)
	}
	return keys
}

// Follows reports whether pods of the class must be with others.
func (l *Ledger) Follows(class int) bool {
	return slices.ContainsFunc(l.rules[class].attracting, func(a affinity) bool { return a.preference < 0 })
}

// Leads reports whether pods of one class are among those that pods of another must be with.
func (l *Ledger) Leads(leader, follower int) bool {
	for i := range l.rules[follower].attracting {
		a := &l.rules[follower].attracting[i]
		l.meter.Spend(1 + len(a.uses))
		for _, u := range a.uses {
			if a.preference < 0 && l.owns(leader, u.group) {
				return true
			}
		}
	}
	return false
}

// Domain returns the number of a value of a key.
func (l *Ledger) Domain(key int, value string) int32 {
	d, ok := l.domains[key][value]
	if !ok {
		if l.shared[key] {
			l.domains[key], l.shared[key] = maps.Clone(l.domains[key]), false
		}
		d = l.NewDomain(key)
		l.domains[key][value] = d
	}
	return d
}

// NewDomain returns a domain of the key that no other place is in.
func (l *Ledger) NewDomain(key int) int32 {
	d := l.sizes[key]
	l.sizes[key]++
	l.meter.Spend(1 + len(l.spreads[key]))
	for _, g := range l.spreads[key] {
		gr := &l.groups[g]
		gr.counts, gr.owners = append(gr.counts, 0), append(gr.owners, 0)
		gr.present, gr.possible = append(gr.present, false), append(gr.possible, false)
	}
	return d
}

// Expect takes memory for so many new domains of a key at once.
func (l *Ledger) Expect(key, domains int) {
	if len(l.domains[key]) == 0 {
		l.domains[key], l.shared[key] = make(map[string]int32, domains), false
	}
	each := int(l.sizes[key]) + domains
	lists := len(l.spreads[key])
	flags := make([]bool, 2*each*lists)
	for g := range l.groups {
		if l.groups[g].key == key && l.asks(g) {
			lists++
		}
	}
	l.meter.Spend(each * lists / numbersUnit)
	numbers := make([]int32, each*lists)
	for g := range l.groups {
		gr := &l.groups[g]
		if gr.key != key || !l.asks(g) {
			continue
		}
		numbers, gr.counts = moved(numbers, gr.counts, each)
		if gr.kind == spreading {
			numbers, gr.owners = moved(numbers, gr.owners, each)
			flags, gr.present = moved(flags, gr.present, each)
			flags, gr.possible = moved(flags, gr.possible, each)
		}
	}
}

// moved copies a list to the beginning of memory, of which it may fill so much, and returns the rest.
func moved[T any](memory, list []T, most int) (rest, at []T) {
	return memory[most:], append(memory[:0:most], list...)
}

// Spreading calls f for each spreading group, also those that nobody asks about, with the
// class whose policies say which machines count, and the policies.
func (l *Ledger) Spreading(f func(group, owner int, ignoreAffinity, honorTaints bool)) {
	l.meter.Spend(1 + len(l.groups)/numbersUnit)
	for g := range l.groups {
		if gr := &l.groups[g]; gr.kind == spreading {
			f(g, gr.owner, gr.ignoreAffinity, gr.honorTaints)
		}
	}
}

// Spreads are the spreading groups of a key that are asked about.
func (l *Ledger) Spreads(key int) []int { return l.spreads[key] }

// IsSpreading reports whether a group is of a spread.
func (l *Ledger) IsSpreading(group int) bool { return l.groups[group].kind == spreading }

// Groups returns how many groups there are, for Place.Counts.
func (l *Ledger) Groups() int { return len(l.groups) }

// Present notes that a machine is there: its domains are ones in which pods can be few.
func (l *Ledger) Present(at *Place) {
	for key, groups := range l.spreads {
		l.meter.Spend(len(groups))
		for _, g := range groups {
			if !at.counts(g) {
				continue
			}
			gr := &l.groups[g]
			domains, sure := at.domains(g, key)
			for _, d := range domains {
				if sure {
					gr.present[d] = true
				} else {
					gr.awaited = grown(gr.awaited, d)
					gr.awaited[d] = true
				}
			}
		}
	}
}

// grown returns the list with an element for the domain.
func grown[T any](list []T, domain int32) []T {
	if missing := int(domain) + 1 - len(list); missing > 0 {
		return append(list, make([]T, missing)...)
	}
	return list
}

// Possible notes for one spreading group that a machine that counts could be bought in
// the domain, and brings so many pods that count with it, at least.
func (l *Ledger) Possible(group int, domain, brings int32) {
	if !l.asks(group) {
		return
	}
	g := &l.groups[group]
	least, noted := g.floor[domain]
	if g.possible[domain] && !noted || noted && least <= brings {
		return
	}
	g.possible[domain], g.buyable = true, true
	if brings > 0 && g.floor == nil {
		g.floor = map[int32]int32{}
	}
	if brings > 0 || noted {
		g.floor[domain] = brings
	}
}

// Sees reports whether pods of the class count in a group.
func (l *Ledger) Sees(group, class int) bool { return l.owns(class, group) }

// IsPresent reports whether a machine that counts in a spreading group is in the domain.
func (l *Ledger) IsPresent(group int, domain int32) bool { return l.groups[group].present[domain] }

// OnlyPresent forgets what could be bought for the groups of the class's spreads. It
// reports whether that made a difference.
func (l *Ledger) OnlyPresent(class int) (changed bool) {
	for _, u := range l.rules[class].spread {
		gr := &l.groups[u.group]
		for d := range gr.possible {
			changed = changed || gr.possible[d] && !gr.present[d]
			gr.possible[d] = false
		}
		gr.buyable = false
	}
	return changed
}

// Count adds n pods of a class to a place; n may be negative. leaving of them have been
// told to end, and count for affinity but not for spread.
func (l *Ledger) Count(class int, at *Place, n, deleting int32) {
	r := &l.rules[class]
	l.meter.Spend(1 + len(r.counted) + len(r.spread))
	for _, g := range r.counted {
		l.count(g, at, n, deleting)
	}
	for i := range r.spread {
		gr := &l.groups[r.spread[i].group]
		if d := at.Domain[gr.key]; d >= 0 && r.spread[i].preference < 0 {
			gr.owners[d] += n
		}
	}
}

// CountUnder is Count for the rules on one key.
func (l *Ledger) CountUnder(class int, at *Place, key int, n int32) {
	l.meter.Spend(1 + len(l.rules[class].counted))
	for _, g := range l.rules[class].counted {
		if l.groups[g].key == key {
			l.count(g, at, n, 0)
		}
	}
}

func (l *Ledger) count(group int, at *Place, n, deleting int32) {
	gr := &l.groups[group]
	if gr.kind == spreading {
		if !at.counts(group) {
			return
		}
		n -= deleting
	}
	domains, sure := at.domains(group, gr.key)
	for _, d := range domains {
		if sure {
			gr.counts = grown(gr.counts, d)
			gr.counts[d] += n
		} else {
			gr.maybe = grown(gr.maybe, d)
			gr.maybe[d] += n
		}
	}
	if len(domains) > 0 {
		gr.total += n
	}
}

// domains returns those of a group's key that the machine may be in, and whether it surely
// is there and counts.
func (p *Place) domains(group, key int) (domains []int32, sure bool) {
	switch d := p.Domain[key]; {
	case d >= 0:
		return p.Domain[key : key+1], p.Doubt == nil || !p.Doubt[group]
	case d == Undetermined:
		return p.May[group], false
	}
	return nil, false
}

func (p *Place) counts(group int) bool { return p.Counts == nil || p.Counts[group] }

func (b *builder) keyOf(key string) int {
	if i := slices.Index(b.keys, key); i >= 0 {
		return i
	}
	b.keys = append(b.keys, key)
	b.domains = append(b.domains, map[string]int32{})
	b.shared, b.sizes = append(b.shared, false), append(b.sizes, 0)
	return len(b.keys) - 1
}

// isHostname reports whether every machine is a domain of its own under the key.
func (l *Ledger) isHostname(key int) bool { return l.keys[key] == label.Hostname }

// Constraints returns the pod constraints of the classes, in order.
func (l *Ledger) Constraints() []*cluster.Constraints { return l.constraintSets }

// KeyOf returns the index of a group's key.
func (l *Ledger) KeyOf(group int) int { return l.groups[group].key }
