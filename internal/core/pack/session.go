package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Session is the running machines with their pods, and changes to them that can be taken
// back: a machine is removed, its pods are put elsewhere, machines are bought for them.
// All rules of placement hold for pods that are put somewhere; wishes are not looked at.
//
// A change is made of Remove, Settle and Buy. It is taken back by Undo, or made final by
// Keep. Pods that are alike are one class, so the time depends on machines and classes.
type Session struct {
	*solver
	hosts []host
	slots slots
	// largest is the most that a machine has free, or one that can be bought.
	largest quantity.Vector
	loose   []int32 // by class: pods that have no machine
	// size are the classes in the order in which they are placed: those that others depend
	// on first, then large ones.
	size []int32
	log  []change
	kept int // so much of the log is final
	// bins are what can be bought, by price, without what another is never worse than.
	bins []freshBin
	// offers are the same at the lowest price of each: spot may be had for it.
	offers []freshBin
	// problem is to buy machines for all pods.
	problem cover.Problem
	// worth is what one pod of each class costs at least on new machines.
	worth []float64
	// least is worth by offers.
	least []float64
	// prices are what a unit of each resource is worth, priced what a pod of each class takes of
	// each, and norms the sums of the squares of that.
	prices, priced, norms []float64
	// yields says of each class whether it leaves on-demand machines to others: it may be on
	// spot, and they may not.
	yields []bool
	// spare are hostname domains of machines that were not bought after all.
	spare   []int32
	present [][]int32 // by spreading group and domain: how many machines
	fills   filler
	odds    [][]bitset             // see session_odds.go
	vain    *vain                  // nil: it is not remembered
	answers map[topology.Sum]*many // of BuyMany, by sumOfLoose
	change  int32                  // number of the change under way
	class   map[*cluster.Shape]int32
	room    []firstRoom // by class
	areas   []area      // nil: they are not known yet
	// spotPools is how many offerings a spot launch should leave open.
	spotPools int
}

// host is a machine with its pods.
type host struct {
	node  *cluster.Node   // nil: to be bought
	bin   int32           // what is to be bought; -1
	free  quantity.Vector // what no pod asks for
	own   []Share
	added []Share
	kind  int32 // machines of one kind are alike in labels and taints, hostname aside
	place topology.Place
	price float64
	spot  bool
	taken bool // false: it takes no pods
	gone  bool
	since int32 // the change that bought it; -1
}

// Share is N pods of a class on a machine.
type Share struct {
	Class, N int32
	// Change is the number of the change that put them there.
	Change int32
}

// NewSession returns the session of a snapshot. Pods that wait for a machine are given
// room on those there are first, as far as there is any. Spot is reckoned at the price at
// which so many offerings can be had that hold as much. All work is taken from the meter.
func NewSession(snap *cluster.Snapshot, opts Options, spotPools int, meter *effort.Meter) *Session {
	if opts.TypesMax == 0 {
		opts.TypesMax = typesMaxDefault
	}
	opts.PriceCap = math.Inf(1) // Launch has its own
	m := &model{space: sessionSpace(snap), meter: meter}
	for _, p := range byWeight(snap.Pools) {
		m.pools = append(m.pools, newPoolModel(m.space, snap, p, opts, meter))
	}
	s := &Session{solver: &solver{snap: snap, opts: opts, model: m}, spotPools: spotPools}
	at := s.addClasses()
	s.class = at
	s.setOdds()
	ledger, running := newLedger(snap, s.classes, meter)
	s.ledger = ledger
	s.addHosts(at, running)
	s.addBins()
	s.orderClasses()
	s.price()
	s.yield()
	s.measure()
	s.rank(nil)
	s.seatPending(at)
	return s
}

func sessionSpace(snap *cluster.Snapshot) quantity.Space {
	space := spaceOf(snap)
	lists := []quantity.List{{}}
	for _, name := range space {
		lists[0][name] = 0
	}
	var last *cluster.Shape
	seen := map[*cluster.Shape]bool{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Residents {
			if sh := snap.Nodes[i].Residents[r].Shape; sh != last && !seen[sh] {
				seen[sh], last = true, sh
				lists = append(lists, sh.Requests)
			}
		}
	}
	return quantity.SpaceOf(lists...)
}

// addClasses makes a class of each shape that would want a machine.
func (s *Session) addClasses() map[*cluster.Shape]int32 {
	at := map[*cluster.Shape]int32{}
	add := func(sh *cluster.Shape) {
		if _, ok := at[sh]; ok {
			return
		}
		at[sh] = int32(len(s.classes))
		c := class{shape: sh, index: len(s.classes), need: s.model.space.Vector(sh.Requests), weight: labelWeight(sh)}
		st := stage{wishesFrom: math.MaxInt}
		for _, p := range s.model.pools {
			st.in = append(st.in, p.admit(sh, nil))
		}
		c.stages = []stage{st}
		s.classes = append(s.classes, c)
	}
	var last *cluster.Shape
	for i := range s.snap.Nodes {
		for r := range s.snap.Nodes[i].Residents {
			if sh := s.snap.Nodes[i].Residents[r].Shape; sh != last {
				add(sh)
				last = sh
			}
		}
	}
	for i := range s.snap.Pending {
		add(s.snap.Pending[i].Shape)
	}
	s.loose, s.room = make([]int32, len(s.classes)), make([]firstRoom, len(s.classes))
	return at
}

// addHosts makes a host of each machine, in the snapshot's order. running is the ledger's
// list of the pods there.
func (s *Session) addHosts(at map[*cluster.Shape]int32, running []int32) {
	kinds := s.newKinds()
	prices := cluster.NewPrices(s.snap)
	ruled := len(s.ledger.Keys()) > 0
	s.present = make([][]int32, s.ledger.Groups())
	s.admitOwners()
	s.hosts = make([]host, len(s.snap.Nodes))
	var amounts slab[int64]
	var shares []Share
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		h := &s.hosts[i]
		*h = host{node: n, bin: -1, price: math.NaN(), since: -1, spot: n.Labels[label.CapacityType] == label.Spot}
		if p, ok := prices.Of(n); ok {
			h.price = p
		}
		if n.Open == nil {
			h.kind = kinds.of(n)
			h.free = amounts.take(len(s.model.space))
			measureRoom(h.free, s.model.space, n, kinds.daemons(n, h.kind))
			h.taken = n.Initialised && n.Ready && !n.Leaving && !n.Closed && n.Marked == ""
		}
		shares = sharesOf(shares[:0], n.Residents, at)
		h.own = slices.Clip(slices.Clone(shares))
		if ruled {
			h.place = s.placeOf(n)
			s.appear(&h.place)
			for p := range n.Pods {
				s.ledger.Count(int(running[p]), &h.place, n.Pods[p].Count, n.Pods[p].Leaving)
			}
		}
		running = running[len(n.Pods):]
	}
	s.fills.allowed = kinds.allowed()
	if ruled {
		s.locatePools()
		if !s.opts.BuyableBinds {
			s.ledger.ForgetPossible()
		}
	}
}

// sharesOf appends to an empty list the pods by class.
func sharesOf(shares []Share, pods []cluster.Resident, at map[*cluster.Shape]int32) []Share {
	var last *cluster.Shape
	c, k := int32(0), 0
	for i := range pods {
		if sh := pods[i].Shape; sh != last {
			last, c = sh, at[sh]
			if k = slices.IndexFunc(shares, func(s Share) bool { return s.Class == c }); k < 0 {
				k = len(shares)
				shares = append(shares, Share{Class: c, Change: -1})
			}
		}
		shares[k].N++
	}
	return shares
}

// orderClasses sorts the classes: leaders before those that must be with them, large
// before small.
func (s *Session) orderClasses() {
	var most quantity.Vector
	for _, p := range s.model.pools {
		for t := range p.types {
			if most == nil {
				most = make(quantity.Vector, len(s.model.space))
			}
			raise(most, p.types[t].free)
		}
	}
	big := make([]float64, len(s.classes))
	for c := range s.classes {
		for r, n := range s.classes[c].need {
			if most != nil && most[r] > 0 {
				big[c] += float64(n) / float64(most[r])
			}
		}
		s.size = append(s.size, int32(c))
	}
	slices.SortStableFunc(s.size, func(a, b int32) int {
		fa, fb := s.ledger.Follows(int(a)), s.ledger.Follows(int(b))
		switch {
		case fa != fb && fa:
			return 1
		case fa != fb:
			return -1
		}
		return cmp.Compare(big[b], big[a])
	})
}

// measure notes how large machines are.
func (s *Session) measure() {
	s.largest = make(quantity.Vector, len(s.model.space))
	for h := range s.hosts {
		if free := s.hosts[h].free; free != nil { // else it is not known yet
			raise(s.largest, free)
		}
	}
	for b := range s.bins {
		raise(s.largest, s.bins[b].free)
	}
}

// seatPending takes room for the pods that wait.
func (s *Session) seatPending(at map[*cluster.Shape]int32) {
	for i := range s.snap.Pending {
		s.loose[at[s.snap.Pending[i].Shape]]++
	}
	if len(s.snap.Pending) == 0 {
		return
	}
	s.Settle()
	clear(s.loose)
	s.log = s.log[:0]
}

// Hosts returns how many machines there are, those that were bought since included. The
// first are those of the snapshot, in its order.
func (s *Session) Hosts() int { return len(s.hosts) }

// Node returns the machine of the snapshot; nil for one that is to be bought.
func (s *Session) Node(h int) *cluster.Node { return s.hosts[h].node }

// Price returns what a machine costs per hour in dollars; NaN when it is not known.
func (s *Session) Price(h int) float64 { return s.hosts[h].price }

// IsGone tells whether the machine was removed.
func (s *Session) IsGone(h int) bool { return s.hosts[h].gone }

// Added returns the pods that changes put on the machine.
func (s *Session) Added(h int) []Share { return s.hosts[h].added }

// Own returns the pods that came with the machine.
func (s *Session) Own(h int) []Share { return s.hosts[h].own }

// Classes returns how many classes there are.
func (s *Session) Classes() int { return len(s.classes) }

// WorthOf returns what one pod of a class costs at least on new machines.
func (s *Session) WorthOf(class int32) float64 { return s.worth[class] }

// Worth returns what the pods on the machine cost at least on new machines, in dollars
// per hour; as those do that were put there by changes.
func (s *Session) Worth(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.hosts[h].own, s.hosts[h].added} {
		for _, sh := range list {
			sum += s.worth[sh.Class] * float64(sh.N)
		}
	}
	return sum
}

// Since returns the number of the change that bought the machine; -1 for those there are.
func (s *Session) Since(h int) int32 { return s.hosts[h].since }

// Class returns the class of a shape that a pod of the snapshot has.
func (s *Session) Class(sh *cluster.Shape) int32 { return s.class[sh] }

// Bin returns what is to be bought; -1 for a machine there is.
func (s *Session) Bin(h int) int32 { return s.hosts[h].bin }

// PriceOf returns what one machine of the bin costs per hour in dollars.
func (s *Session) PriceOf(bin int32) float64 { return s.bins[bin].price }

// IsSpot tells whether a machine is a spot machine.
func (s *Session) IsSpot(h int) bool { return s.hosts[h].spot }

// MayLeave tells whether each pod of the machine, by itself, would find room elsewhere.
func (s *Session) MayLeave(h int) bool {
	for _, list := range [][]Share{s.hosts[h].own, s.hosts[h].added} {
		for _, sh := range list {
			room := s.roomFor(sh.Class)
			if room[0] < 0 || int(room[0]) == h && room[1] < 0 {
				return false
			}
		}
	}
	return true
}

// firstRoom is the first two machines that have room for a class; -1: there is none. No
// machine's room grows while the order of the machines stays, except by Undo to what it was
// when it was last asked, so none remains none.
type firstRoom struct {
	hosts [2]int32
	known bool
}

// roomFor returns the first two machines that have room for a class. It is asked between
// changes only.
func (s *Session) roomFor(c int32) [2]int32 {
	r := &s.room[c]
	need := s.classes[c].need
	if r.known && s.slots.holds(r.hosts[0], need) && s.slots.holds(r.hosts[1], need) {
		return r.hosts
	}
	*r = firstRoom{[2]int32{-1, -1}, true}
	want, visits, at := s.slots.wish(need), visitsMax, -1
	for k := range r.hosts {
		if at = s.slots.next(at+1, want, &visits); at < 0 {
			break
		}
		r.hosts[k] = s.slots.host[at]
	}
	return r.hosts
}

// Survey looks for which pods there is no room left, so that none is looked for again. In
// the middle of a change, which may be taken back, it does nothing.
func (s *Session) Survey() {
	if len(s.log) > s.kept {
		return
	}
	for c := range s.classes {
		s.roomFor(int32(c))
	}
}

// kinds groups machines that the classes cannot tell apart by labels and taints.
type kinds struct {
	s       *Session
	keys    []string // that classes ask about, hostname aside
	byName  map[string]int32
	example []*cluster.Node
	sums    []quantity.Vector // what daemons ask for, by kind with all labels daemons ask about
	byHost  bool              // a daemon asks for a hostname
	buf     []byte
}

func (s *Session) newKinds() *kinds {
	k := &kinds{s: s, byName: map[string]int32{}}
	note := func(terms []label.Requirements) {
		for _, t := range terms {
			for key := range t {
				if key != label.Hostname && !slices.Contains(k.keys, key) {
					k.keys = append(k.keys, key)
				}
			}
		}
	}
	for c := range s.classes {
		note(s.classes[c].shape.Terms)
	}
	for i := range s.snap.Daemons {
		note(s.snap.Daemons[i].Shape.Terms)
		k.byHost = k.byHost || asksHost(s.snap.Daemons[i].Shape.Terms)
	}
	slices.Sort(k.keys)
	return k
}

// asksHost tells whether one of the terms asks for a hostname.
func asksHost(terms []label.Requirements) bool {
	return slices.ContainsFunc(terms, func(t label.Requirements) bool { _, ok := t[label.Hostname]; return ok })
}

func (k *kinds) of(n *cluster.Node) int32 {
	name := k.buf[:0]
	for _, key := range k.keys {
		if v, ok := n.Labels[key]; ok {
			name = append(append(name, v...), 0)
		}
		name = append(name, 1)
	}
	for _, t := range n.Taints {
		name = append(append(name, t.Key...), 0)
		name = append(append(name, t.Value...), 0)
		name = append(append(name, t.Effect...), 1)
	}
	k.buf = name
	i, ok := k.byName[string(name)]
	if !ok {
		i = int32(len(k.example))
		k.byName[string(name)] = i
		k.example = append(k.example, n)
		k.sums = append(k.sums, nil)
	}
	return i
}

// daemons returns what the daemons that select a node of the kind ask for.
func (k *kinds) daemons(n *cluster.Node, kind int32) quantity.Vector {
	if k.byHost {
		return daemonsFor(k.s.model.space, k.s.snap.Daemons, n)
	}
	if k.sums[kind] == nil {
		k.sums[kind] = daemonsFor(k.s.model.space, k.s.snap.Daemons, n)
	}
	return k.sums[kind]
}

// allowed returns for each class the kinds whose labels and taints are right. For classes
// that ask for a hostname it is only known machine by machine: nil.
func (k *kinds) allowed() []bitset {
	out := make([]bitset, len(k.s.classes))
	for c := range k.s.classes {
		sh := k.s.classes[c].shape
		if asksHost(sh.Terms) {
			continue
		}
		out[c] = newBitset(len(k.example))
		k.s.model.meter.Spend(len(k.example) * k.s.classes[c].weight)
		for i, n := range k.example {
			if sh.Invalid == "" && fit.Tolerated(sh.Tolerations, n.Taints) && fit.Matches(sh.Terms, n.Labels) {
				out[c].set(i)
			}
		}
	}
	return out
}
