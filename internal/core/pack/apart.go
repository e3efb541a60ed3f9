package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// This file is for classes whose place matters to other pods, or theirs to them: they are
// placed one by one against the ledger's counts.

// fewDomains is how many domains of each key there are thought to be, machines aside.
const fewDomains = 6

// newLedger returns the ledger of all rules between pods that matter to the classes. They
// come first, in their order; shapes that only run follow, then the daemons. running is the
// index of each entry of the nodes' pods, one node after another.
func newLedger(snap *cluster.Snapshot, classes []class, meter *effort.Meter) (l *topology.Ledger, running []int32) {
	entries := 0
	for i := range snap.Nodes {
		entries += len(snap.Nodes[i].Pods)
	}
	running = make([]int32, 0, entries)
	shapes := make([]*cluster.Shape, 0, len(classes)+len(snap.Daemons))
	index := make(map[*cluster.Shape]int32, len(classes))
	for c := range classes {
		index[classes[c].shape] = int32(c)
		shapes = append(shapes, classes[c].shape)
	}
	for i := range snap.Nodes {
		for p := range snap.Nodes[i].Pods {
			sh := snap.Nodes[i].Pods[p].Shape
			at, known := index[sh]
			if !known {
				at = int32(len(shapes))
				index[sh] = at
				shapes = append(shapes, sh)
			}
			running = append(running, at)
		}
	}
	daemons := len(shapes)
	for i := range snap.Daemons {
		shapes = append(shapes, snap.Daemons[i].Shape)
	}
	l = topology.NewFor(shapes, snap.Namespaces, meter, func(c int) bool { return c < len(classes) || c >= daemons })
	for k, key := range l.Keys() {
		if domains := fewDomains; l.AsksOf(k) {
			if key == label.Hostname {
				domains += len(snap.Nodes)
			}
			l.Expect(k, domains)
		}
	}
	for c := range classes {
		classes[c].keys = l.KeysOf(c)
	}
	return l, running
}

// locate finds the place of every machine there is, counts the pods that run, as the ledger's
// list of them says, and notes where machines could be bought.
func (s *solver) locate(running []int32) {
	if len(s.ledger.Keys()) == 0 {
		return
	}
	s.findVisible()
	s.admitOwners()
	at := make([]int, len(s.snap.Nodes)) // one more than the index among the fixed; 0: it is none
	for i := range s.fixed {
		s.fixed[i].place = s.placeOf(s.fixed[i].node)
		at[s.fixed[i].index] = i + 1
	}
	other := s.newPlace()
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		here := running[:len(n.Pods)]
		running = running[len(n.Pods):]
		place := &other
		switch f := at[i]; {
		case f > 0:
			place = &s.fixed[f-1].place
		case n.Open != nil:
			open := s.placeOfOpen(n)
			place = &open
		default:
			s.settle(n, place, len(s.visible) > 0 || slices.ContainsFunc(here, func(c int32) bool { return s.ledger.Counts(int(c)) }))
		}
		s.ledger.Present(place)
		for p, c := range here {
			s.ledger.Count(int(c), place, n.Pods[p].Count, n.Pods[p].Leaving)
		}
		s.expect(n, place)
	}
	s.locatePools()
}

// placeOf returns the place of a machine of the snapshot.
func (s *solver) placeOf(n *cluster.Node) topology.Place {
	if n.Open != nil {
		return s.placeOfOpen(n)
	}
	place := s.newPlace()
	s.settle(n, &place, true)
	return place
}

// newPlace returns memory for a place.
func (s *solver) newPlace() topology.Place {
	return topology.Place{Domain: s.places.domains.take(len(s.ledger.Keys())), Counts: s.places.flags.take(s.ledger.Groups())}
}

// settle writes to a place where a machine is that has a Node, as far as anyone asks. Of a
// machine that has no pods that count, and gets none, only spreads ask.
func (s *solver) settle(n *cluster.Node, place *topology.Place, counts bool) {
	for k, key := range s.ledger.Keys() {
		place.Domain[k] = topology.None
		if !s.ledger.AsksOf(k) || !counts && len(s.ledger.Spreads(k)) == 0 {
			continue
		}
		value, ok := n.Labels[key]
		if key == label.Hostname && !ok {
			value, ok = n.Name, true
		}
		if ok {
			place.Domain[k] = s.ledger.Domain(k, value)
		}
	}
	for i := range s.watchers {
		w := &s.watchers[i]
		counts := (w.terms == nil || fit.Matches(w.terms, n.Labels)) &&
			(!w.honorTaints || fit.Tolerated(w.tolerations, n.Taints))
		for _, g := range w.groups {
			place.Counts[g] = counts
		}
	}
}

// watcher is what owners of spreading groups that are asked about want of a machine for it to
// count.
type watcher struct {
	terms       []label.Requirements // nil: nothing
	honorTaints bool
	tolerations []cluster.Toleration
	groups      []int
}

// findWatchers finds out what machines must be to count in spreads. Few owners differ in it.
func (s *solver) findWatchers() {
	shapes, asked := s.ledger.Shapes(), make([]bool, s.ledger.Groups())
	for k := range s.ledger.Keys() {
		for _, g := range s.ledger.Spreads(k) {
			asked[g] = true
		}
	}
	s.ledger.Spreading(func(g, owner int, ignoreAffinity, honorTaints bool) {
		if !asked[g] {
			return
		}
		w := watcher{honorTaints: honorTaints}
		if w.terms = shapes[owner].CountedTerms(); ignoreAffinity || anyEmpty(w.terms) {
			w.terms = nil
		}
		if honorTaints {
			w.tolerations = shapes[owner].Tolerations
		}
		recent := s.watchers[max(0, len(s.watchers)-askedMax):]
		at := slices.IndexFunc(recent, func(o watcher) bool {
			return o.honorTaints == w.honorTaints && slices.Equal(o.tolerations, w.tolerations) && slices.EqualFunc(o.terms, w.terms, label.Requirements.Equal)
		})
		if at < 0 {
			s.watchers = append(s.watchers, w)
			at, recent = 0, s.watchers[len(s.watchers)-1:]
		}
		recent[at].groups = append(recent[at].groups, g)
	})
}

// anyEmpty tells whether one of the terms is right for every machine.
func anyEmpty(terms []label.Requirements) bool {
	return slices.ContainsFunc(terms, func(t label.Requirements) bool { return len(t) == 0 })
}

// placeOfOpen returns the place of a claim that the cloud has not answered for: it may be
// in each domain that its requirements allow.
func (s *solver) placeOfOpen(n *cluster.Node) topology.Place {
	u := unsettled{host: n.Name, has: n.Open.Requirements, labels: n.Labels, at: slices.IndexFunc(s.model.pools, func(p *poolModel) bool { return p.pool.Name == n.Pool })}
	if u.at >= 0 {
		u.atoms, _, _ = s.model.pools[u.at].match(n.Open.Requirements, true)
	}
	return s.placeOfUnsettled(&u)
}

// admits tells whether some of what has the atoms and the requirements may be what the
// class allows, and whether some may be not.
func (in *classIn) admits(atoms bitset, has label.Requirements) (some, notAll bool) {
	for _, t := range in.terms {
		if _, conflict := has.Conflict(t.open); conflict || !atoms.meets(t.atoms) {
			continue
		}
		if atoms.within(t.atoms) && assured(has, t.open) {
			return true, false
		}
		some = true
	}
	return some, some
}

// owners are the owners of spreading groups that admit the same of a pool.
type owners struct {
	terms  []label.Requirements // nil: any machine counts
	in     classIn
	groups []int
}

// admitOwners notes for each pool what the owner of each spreading group admits of it.
func (s *solver) admitOwners() {
	s.findWatchers()
	shapes := s.ledger.Shapes()
	for _, pool := range s.model.pools {
		var admitted []owners
		s.ledger.Spreading(func(g, owner int, ignoreAffinity, honorTaints bool) {
			if honorTaints && !fit.Tolerated(shapes[owner].Tolerations, pool.pool.Taints) {
				return
			}
			terms := shapes[owner].CountedTerms()
			if ignoreAffinity {
				terms = nil
			}
			recent := max(0, len(admitted)-askedMax)
			at := slices.IndexFunc(admitted[recent:], func(o owners) bool { return slices.EqualFunc(o.terms, terms, label.Requirements.Equal) })
			if at < 0 {
				at = len(admitted) - recent
				in := classIn{terms: []termIn{{atoms: fullBitset(len(pool.atoms))}}}
				if !ignoreAffinity {
					in = pool.admitLabels(terms, nil)
				}
				admitted = append(admitted, owners{terms: terms, in: in})
			}
			o := &admitted[recent+at]
			o.groups = append(o.groups, g)
		})
		s.counted = append(s.counted, admitted)
	}
}

// locatePools notes for each spreading group the domains in which machines could be bought
// that its owner admits.
func (s *solver) locatePools() {
	keys := s.ledger.Keys()
	hostname := -1
	for at, pool := range s.model.pools {
		if pool.pool.Unready != "" {
			continue
		}
		for i := range s.counted[at] {
			o := &s.counted[at][i]
			for _, t := range o.in.terms {
				choices := make([][]choice, len(keys))
				for k, key := range keys {
					choices[k] = pool.choices(key, t.atoms, nil)
				}
				for _, g := range o.groups {
					k := s.ledger.KeyOf(g)
					for _, d := range choices[k] {
						s.ledger.Possible(g, s.ledger.Domain(k, d.value), s.brings(g, at, t.atoms, d.atoms))
					}
					if keys[k] == label.Hostname && !pool.buyable.empty() {
						if hostname < 0 {
							hostname = int(s.ledger.NewDomain(k))
						}
						s.ledger.Possible(g, int32(hostname), s.brings(g, at, t.atoms, nil))
					}
				}
			}
		}
	}
}

// locateLaunch gives a new bin its place: what its pool settles is known, the rest is
// open until a pod for which it matters comes.
func (s *solver) locateLaunch(b *launchBin) {
	keys := s.ledger.Keys()
	if len(keys) == 0 {
		return
	}
	b.place = topology.Place{Domain: s.places.domains.take(len(keys)), Counts: s.places.flags.take(s.ledger.Groups())}
	for k, key := range keys {
		b.place.Domain[k] = topology.Open
		if key == label.Hostname {
			b.place.Domain[k] = s.ledger.NewDomain(k)
		} else if value, only := b.pool.pool.Requirements[key].Only(); only {
			b.place.Domain[k] = s.ledger.Domain(k, value)
		}
	}
	s.recount(b)
	if len(s.visible) == 0 {
		b.company = company{settled: true}
	} else if ways := s.companies(b, b.atoms); len(ways) == 1 {
		s.settleCompany(b, ways[0])
	}
}

// recount works out in which spreading groups the bin counts: those whose owner admits
// some of what it may still become. A bin that was settled elsewhere is not a domain for
// those who cannot go there.
func (s *solver) recount(b *launchBin) {
	for i := range s.counted[b.at] {
		o := &s.counted[b.at][i]
		some := slices.ContainsFunc(o.in.terms, func(t termIn) bool { return b.scratch.intersection(b.atoms, t.atoms) })
		for _, g := range o.groups {
			b.place.Counts[g] = some
		}
	}
}

// placeSingly finds room for the pods of a class one after another.
func (s *solver) placeSingly(c *class, st *stage) {
	for len(c.pods) > 0 {
		at, ok := s.placeOne(c, st)
		if !ok {
			return
		}
		c.take(s.placed, 1, at)
	}
}

func (s *solver) placeOne(c *class, st *stage) (placement, bool) {
	if at, ok := s.placeOneFixed(c, st); ok {
		return at, true
	}
	for i, b := range s.launches {
		if b.refusal.IsYes() && s.addSettled(b, c, st) {
			return placement{onLaunch, int32(i)}, true
		}
	}
	if b := s.open(c, st, func(b *launchBin) bool { return s.addSettled(b, c, st) }); b != nil {
		return placement{onLaunch, int32(len(s.launches) - 1)}, true
	}
	return placement{}, false
}

// addSettled places one pod of the class on a machine to be bought, after settling the
// domains that matter for it.
func (s *solver) addSettled(b *launchBin, c *class, st *stage) bool {
	in := &st.in[b.at]
	if b.full(c) || !in.refusal.IsYes() || st.tidy && fit.Undesired(c.shape.Tolerations, b.pool.pool.Taints) ||
		len(c.shape.Ports) > 0 && !portsFree(s.model.meter, c.shape.Ports, b.ports) {
		return false
	}
	if b.company.settled {
		if v := s.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous); !v.IsYes() {
			c.apart = v
			return false
		}
	}
	for i := range in.terms {
		t := &in.terms[i]
		if !b.scratch.intersection(b.atoms, t.atoms) {
			continue
		}
		atoms := b.scratch.clone()
		if b.company.settled {
			if s.settleKeys(b, c, st, t, atoms, c.keys, nil) {
				return true
			}
			continue
		}
		for _, way := range s.companies(b, atoms) {
			s.settleCompany(b, way)
			if s.settleKeys(b, c, st, t, way.atoms, c.keys, nil) {
				return true
			}
			s.depart(b)
		}
	}
	return false
}

// settleKeys chooses a domain for each of the keys that is still open, best first, and
// places the pod once none is. atoms are those left; pins what was chosen so far.
func (s *solver) settleKeys(b *launchBin, c *class, st *stage, t *termIn, atoms bitset, keys []int, pins label.Requirements) bool {
	for len(keys) > 0 && b.place.Domain[keys[0]] != topology.Open {
		keys = keys[1:]
	}
	if len(keys) == 0 {
		return s.addPinned(b, c, st, t, atoms, pins)
	}
	k := keys[0]
	key := s.ledger.Keys()[k]
	choices := b.pool.choices(key, atoms, b.open[key].Values())
	if len(choices) == 0 {
		// The machine will not have the label at all.
		s.settleDomain(b, k, topology.None)
		if s.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous).IsYes() && s.settleKeys(b, c, st, t, atoms, keys[1:], pins) {
			return true
		}
		s.settleDomain(b, k, topology.Open)
		return false
	}
	for i := range choices {
		choices[i].domain = s.ledger.Domain(k, choices[i].value)
		choices[i].appeal = s.ledger.Appeal(c.index, k, choices[i].domain)
	}
	slices.SortFunc(choices, func(x, y choice) int {
		return cmp.Or(cmp.Compare(x.appeal, y.appeal), cmp.Compare(x.price, y.price), cmp.Compare(x.value, y.value))
	})
	left := newBitset(len(b.pool.atoms))
	for _, ch := range choices {
		s.settleDomain(b, k, ch.domain)
		if v := s.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous); !v.IsYes() {
			c.apart = v
			continue
		}
		if st.courteous && !s.companyWelcome(b) {
			continue
		}
		copy(left, atoms)
		if ch.atoms != nil {
			left.and(ch.atoms)
		}
		if s.settleKeys(b, c, st, t, left.clone(), keys[1:], pins.With(key, label.In(ch.value))) {
			return true
		}
	}
	s.settleDomain(b, k, topology.Open)
	return false
}

// addPinned places one pod with all domains settled.
func (s *solver) addPinned(b *launchBin, c *class, st *stage, t *termIn, atoms bitset, pins label.Requirements) bool {
	if v := s.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous); !v.IsYes() {
		c.apart = v
		return false
	}
	if _, conflict := b.open.Conflict(pins); conflict {
		return false
	}
	copy(b.scratch, atoms)
	if b.addWithin(c, t, 1) == 0 {
		return false
	}
	if len(pins) > 0 {
		b.terms = append(b.terms, pins)
		b.open = b.open.Intersect(pins)
		s.recount(b)
	}
	if !b.present || len(pins) > 0 {
		s.ledger.Present(&b.place)
		b.present = true
	}
	s.ledger.Count(c.index, &b.place, 1, 0)
	return true
}

// choice is one domain that a machine could be in.
type choice struct {
	value  string
	domain int32
	atoms  bitset // nil: all
	appeal int64
	price  float64
}

// choices returns the values of a key that machines with these atoms could have. Where
// no atom decides the key, they are the pool's, or those given.
func (p *poolModel) choices(key string, atoms bitset, open []string) []choice {
	var out []choice
	k, indexed := p.decided(key)
	if !indexed {
		if q, ruled := p.pool.Requirements[key]; ruled && q.Operator() == label.OpIn && len(open) == 0 {
			open = q.Values()
		}
		for _, v := range open {
			out = append(out, choice{value: v})
		}
		return out
	}
	both := newBitset(len(p.atoms))
	for i, v := range k.values {
		if !both.intersection(atoms, k.with[i]) || !both.intersection(both, p.buyable) {
			continue
		}
		ch := choice{value: v, atoms: k.with[i], price: math.Inf(1)}
		for a := range both.all() {
			ch.price = min(ch.price, p.atoms[a].Cost())
		}
		out = append(out, ch)
	}
	return out
}
