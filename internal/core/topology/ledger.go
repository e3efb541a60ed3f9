package topology

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
)

// Ledger counts pods by topology domain and answers what the rules say. A class is a pod
// equivalence class: an index into the pod constraints that the Ledger was made with.
type Ledger struct {
	constraintSets []*cluster.Constraints
	keys           []string
	domains        []map[string]int32 // by key
	shared         []bool             // by key: a clone has the same domains, so none may be added
	sizes          []int32            // by key: how many domains
	groups         []group
	rules          []classRules
	spreads        [][]int // by key: the spreading groups that are asked about
	asked          []bool  // by group
	keysAsked      []bool  // by key: some group that is asked about has it
	keySets        [][]int // results of KeysOf, which classes share
	scratch        []int
	// meter pays for all that is asked and counted.
	meter *effort.Meter
	// soldOut: domains in which nodes could be launched no longer count.
	soldOut bool
}

// Keys returns the label keys that rules mention; a Place has a domain for each.
func (l *Ledger) Keys() []string { return l.keys }

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

// NewDomain returns a new domain of the key. No other place is in it.
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

// Expect allocates memory for this many new domains of a key at once.
func (l *Ledger) Expect(key, domains int) {
	if len(l.domains[key]) == 0 {
		l.domains[key], l.shared[key] = make(map[string]int32, domains), false
	}
	each := int(l.sizes[key]) + domains
	lists := len(l.spreads[key])
	flags := make([]bool, 2*each*lists)
	for g := range l.groups {
		if l.groups[g].key == key && l.asked[g] {
			lists++
		}
	}
	l.meter.Spend(each * lists / numbersUnit)
	numbers := make([]int32, each*lists)
	for g := range l.groups {
		gr := &l.groups[g]
		if gr.key != key || !l.asked[g] {
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

// Groups returns how many groups there are: the length of Place.Counts.
func (l *Ledger) Groups() int { return len(l.groups) }

// Count adds n pods of a class to a place; n may be negative. Of these, the number deleting
// are being deleted: they count for affinity but not for spread.
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

// CountUnder is Count for the rules on one key only.
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

// Constraints returns the pod constraints of the classes, in order.
func (l *Ledger) Constraints() []*cluster.Constraints { return l.constraintSets }

// KeyOf returns the index of a group's key.
func (l *Ledger) KeyOf(group int) int { return l.groups[group].key }
