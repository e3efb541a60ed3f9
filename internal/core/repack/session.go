package repack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Session is the running nodes with their pods, and changes to them that can be undone: a
// node is removed, its pods are rescheduled, nodes are launched for those that no node has
// room for. All rules of placement hold for pods that are rescheduled; preferences are not
// looked at.
//
// A change is made of Nodes.Remove, Rescheduler.Reschedule and Launcher.LaunchFor. It is taken
// back by Nodes.Undo, or made final by Nodes.Keep. Pods that are alike are one class, so the
// time depends on nodes and classes.
type Session struct {
	Inventory   *Inventory
	Nodes       *Nodes
	Rescheduler *Rescheduler
	Launcher    *Launcher
}

// Inventory is what a session's changes do not alter: the classes of pods, the offerings that
// can be launched, and what pods and resources are worth.
type Inventory struct {
	model   *model.Model
	topo    *place.Topology
	ledger  *topology.Ledger
	classes []model.PodClass
	class   map[*cluster.Constraints]int32
	// size are the classes in the order in which they are placed: those that others depend
	// on first, then large ones.
	size []int32
	// offerings are what can be launched, by price, without what another is never worse than.
	offerings []offering
	// spotOfferings are the same at the lowest price of each: spot may be had for it.
	spotOfferings []offering
	// spotPools is how many offerings a spot launch should leave open.
	spotPools int
	// problem is to launch nodes for all pods.
	problem cover.Problem
	// worth is what one pod of each class costs at least on new nodes.
	worth []float64
	// least is worth by spotOfferings.
	least []float64
	// prices are what a unit of each resource is worth, priced what a pod of each class takes of
	// each, and norms the sums of the squares of that.
	prices, priced, norms []float64
	// yields says of each class whether it leaves on-demand nodes to others: it may be on
	// spot, and they may not.
	yields    []bool
	conflicts [][]model.Bitset // see conflicts.go
	fills     filler
}

// Nodes are the nodes that run or were launched, and the log by which changes to them are undone.
type Nodes struct {
	inv       *Inventory
	hosts     []host
	vacancies vacancies
	// largest is the most that a node has free, or one that can be launched.
	largest  quantity.Vector
	unplaced []int32 // by class: pods that have no node
	log      []change
	kept     int   // so much of the log is final
	change   int32 // number of the change under way
	// unused are hostname domains of nodes that were not launched after all.
	unused  []int32
	present [][]int32 // by spreading group and domain: how many nodes
}

// Rescheduler puts unplaced pods on the nodes there are.
type Rescheduler struct {
	inv   *Inventory
	nodes *Nodes
	room  []firstRoom // by class
}

// Launcher launches nodes for unplaced pods.
type Launcher struct {
	inv      *Inventory
	nodes    *Nodes
	pods     *Rescheduler
	negative *negativeCache         // nil: it is not remembered
	answers  map[topology.Sum]*many // of LaunchMany, by sumOfUnplaced
	areas    []area                 // nil: they are not known yet
}

// host is a node with its pods.
type host struct {
	node  *cluster.Node   // nil: to be launched
	bin   int32           // what is to be launched; -1
	free  quantity.Vector // what no pod asks for
	own   []Share
	added []Share
	kind  int32 // nodes of one kind are alike in labels and taints, hostname aside
	place topology.Place
	price float64
	spot  bool
	taken bool // false: it takes no pods
	gone  bool
	since int32 // the change that launched it; -1
}

// Share is N pods of a class on a node.
type Share struct {
	Class, N int32
	// Change is the number of the change that put them there.
	Change int32
}

// NewSession returns the session of a snapshot. Pods that wait for a node are given
// room on those there are first, as far as there is any. Spot is reckoned at the price at
// which so many offerings can be had that hold as much. All work is taken from the meter.
func NewSession(snap *cluster.Snapshot, opts model.Options, spotPools int, meter *effort.Meter) *Session {
	if opts.TypesMax == 0 {
		opts.TypesMax = model.TypesMaxDefault
	}
	opts.PriceCap = math.Inf(1) // Launch has its own
	m := model.New(snap, sessionSpace(snap), opts, meter)
	inv := &Inventory{model: m, topo: &place.Topology{Model: m}, spotPools: spotPools}
	inv.addClasses()
	inv.setConflicts()
	ledger, running := place.NewLedger(snap, inv.classes, meter)
	inv.topo.Ledger, inv.ledger = ledger, ledger
	nodes := &Nodes{inv: inv, unplaced: make([]int32, len(inv.classes))}
	nodes.addHosts(inv.class, running)
	inv.addOfferings()
	inv.orderClasses()
	nodes.price()
	inv.yield()
	nodes.measure()
	r := &Rescheduler{inv: inv, nodes: nodes, room: make([]firstRoom, len(inv.classes))}
	r.rank(nil)
	r.reservePending(inv.class)
	return &Session{Inventory: inv, Nodes: nodes, Rescheduler: r, Launcher: &Launcher{inv: inv, nodes: nodes, pods: r}}
}

func sessionSpace(snap *cluster.Snapshot) quantity.Space {
	space := model.SpaceOf(snap)
	lists := []quantity.List{{}}
	for _, name := range space {
		lists[0][name] = 0
	}
	var last *cluster.Constraints
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			if sh := snap.Nodes[i].Reschedulable[r].Constraints; sh != last && !seen[sh] {
				seen[sh], last = true, sh
				lists = append(lists, sh.Requests)
			}
		}
	}
	return quantity.SpaceOf(lists...)
}

// addClasses makes a class of each shape that would want a node.
func (s *Inventory) addClasses() {
	at := map[*cluster.Constraints]int32{}
	s.class = at
	add := func(sh *cluster.Constraints) {
		if _, ok := at[sh]; ok {
			return
		}
		at[sh] = int32(len(s.classes))
		c := model.PodClass{Constraints: sh, Index: len(s.classes), Need: s.model.Space.Vector(sh.Requests), Weight: model.LabelWeight(sh)}
		st := model.Stage{PreferencesFrom: math.MaxInt}
		for _, p := range s.model.Pools {
			st.Admitted = append(st.Admitted, p.Admit(sh, nil))
		}
		c.Stages = []model.Stage{st}
		s.classes = append(s.classes, c)
	}
	var last *cluster.Constraints
	for i := range s.model.Snapshot.Nodes {
		for r := range s.model.Snapshot.Nodes[i].Reschedulable {
			if sh := s.model.Snapshot.Nodes[i].Reschedulable[r].Constraints; sh != last {
				add(sh)
				last = sh
			}
		}
	}
	for i := range s.model.Snapshot.Pending {
		add(s.model.Snapshot.Pending[i].Constraints)
	}
}

// addHosts makes a host of each node, in the snapshot's order. running is the ledger's
// list of the pods there.
func (s *Nodes) addHosts(at map[*cluster.Constraints]int32, running []int32) {
	kinds := s.inv.newKinds()
	prices := cluster.NewPrices(s.inv.model.Snapshot)
	ruled := len(s.inv.ledger.Keys()) > 0
	s.present = make([][]int32, s.inv.ledger.Groups())
	s.inv.topo.AdmitOwners()
	s.hosts = make([]host, len(s.inv.model.Snapshot.Nodes))
	var amounts model.Slab[int64]
	var shares []Share
	for i := range s.inv.model.Snapshot.Nodes {
		n := &s.inv.model.Snapshot.Nodes[i]
		h := &s.hosts[i]
		*h = host{node: n, bin: -1, price: math.NaN(), since: -1, spot: n.Labels[label.CapacityType] == label.Spot}
		if p, ok := prices.Of(n); ok {
			h.price = p
		}
		if n.InFlight == nil {
			h.kind = kinds.of(n)
			h.free = amounts.Take(len(s.inv.model.Space))
			model.MeasureRoom(h.free, s.inv.model.Space, n, kinds.daemons(n, h.kind))
			h.taken = n.Initialized && n.Ready && !n.Deleting && !n.DisruptedTaint && n.DisruptionReason == ""
		}
		shares = sharesOf(shares[:0], n.Reschedulable, at)
		h.own = slices.Clip(slices.Clone(shares))
		if ruled {
			h.place = s.inv.topo.DomainsOf(n)
			s.appear(&h.place)
			for p := range n.Pods {
				s.inv.ledger.Count(int(running[p]), &h.place, n.Pods[p].Count, n.Pods[p].Deleting)
			}
		}
		running = running[len(n.Pods):]
	}
	s.inv.fills.allowed = kinds.allowed()
	if ruled {
		s.inv.topo.LocatePools()
		if !s.inv.model.Options.BuyableBinds {
			s.inv.ledger.ForgetPossible()
		}
	}
}

// sharesOf appends to an empty list the pods by class.
func sharesOf(shares []Share, pods []cluster.ReschedulablePod, at map[*cluster.Constraints]int32) []Share {
	var last *cluster.Constraints
	c, k := int32(0), 0
	for i := range pods {
		if sh := pods[i].Constraints; sh != last {
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
func (s *Inventory) orderClasses() {
	var most quantity.Vector
	for _, p := range s.model.Pools {
		for t := range p.Types {
			if most == nil {
				most = make(quantity.Vector, len(s.model.Space))
			}
			model.Raise(most, p.Types[t].Free)
		}
	}
	big := make([]float64, len(s.classes))
	for c := range s.classes {
		for r, n := range s.classes[c].Need {
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

// measure notes how large nodes are.
func (s *Nodes) measure() {
	s.largest = make(quantity.Vector, len(s.inv.model.Space))
	for h := range s.hosts {
		if free := s.hosts[h].free; free != nil { // else it is not known yet
			model.Raise(s.largest, free)
		}
	}
	for b := range s.inv.offerings {
		model.Raise(s.largest, s.inv.offerings[b].free)
	}
}

// reservePending takes room for the pods that wait.
func (s *Rescheduler) reservePending(at map[*cluster.Constraints]int32) {
	for i := range s.inv.model.Snapshot.Pending {
		s.nodes.unplaced[at[s.inv.model.Snapshot.Pending[i].Constraints]]++
	}
	if len(s.inv.model.Snapshot.Pending) == 0 {
		return
	}
	s.Reschedule()
	clear(s.nodes.unplaced)
	s.nodes.log = s.nodes.log[:0]
}

// Hosts returns how many nodes there are, those that were launched since included. The
// first are those of the snapshot, in its order.
func (s *Nodes) Hosts() int { return len(s.hosts) }

// Node returns the node of the snapshot; nil for one that is to be launched.
func (s *Nodes) Node(h int) *cluster.Node { return s.hosts[h].node }

// Price returns what a node costs per hour in dollars; NaN when it is not known.
func (s *Nodes) Price(h int) float64 { return s.hosts[h].price }

// IsGone reports whether the node was removed.
func (s *Nodes) IsGone(h int) bool { return s.hosts[h].gone }

// Added returns the pods that changes put on the node.
func (s *Nodes) Added(h int) []Share { return s.hosts[h].added }

// Own returns the pods that came with the node.
func (s *Nodes) Own(h int) []Share { return s.hosts[h].own }

// Classes returns how many classes there are.
func (s *Inventory) Classes() int { return len(s.classes) }

// WorthOf returns what one pod of a class costs at least on new nodes.
func (s *Inventory) WorthOf(class int32) float64 { return s.worth[class] }

// Worth returns what the pods on the node cost at least on new nodes, in dollars
// per hour; as those do that were put there by changes.
func (s *Session) Worth(h int) float64 {
	sum := 0.0
	for _, list := range [][]Share{s.Nodes.hosts[h].own, s.Nodes.hosts[h].added} {
		for _, sh := range list {
			sum += s.Inventory.worth[sh.Class] * float64(sh.N)
		}
	}
	return sum
}

// Since returns the number of the change that launched the node; -1 for those there are.
func (s *Nodes) Since(h int) int32 { return s.hosts[h].since }

// Class returns the class of pod constraints that a pod of the snapshot has.
func (s *Inventory) Class(sh *cluster.Constraints) int32 { return s.class[sh] }

// Bin returns what is to be launched; -1 for a node there is.
func (s *Nodes) Bin(h int) int32 { return s.hosts[h].bin }

// PriceOf returns what one node of the bin costs per hour in dollars.
func (s *Inventory) PriceOf(bin int32) float64 { return s.offerings[bin].price }

// IsSpot reports whether a node is a spot node.
func (s *Nodes) IsSpot(h int) bool { return s.hosts[h].spot }

// MayLeave reports whether each pod of the node, by itself, would find room elsewhere.
func (s *Rescheduler) MayLeave(h int) bool {
	for _, list := range [][]Share{s.nodes.hosts[h].own, s.nodes.hosts[h].added} {
		for _, sh := range list {
			room := s.roomFor(sh.Class)
			if room[0] < 0 || int(room[0]) == h && room[1] < 0 {
				return false
			}
		}
	}
	return true
}

// firstRoom is the first two nodes that have room for a class; -1: there is none. No
// node's room grows while the order of the nodes stays, except by Undo to what it was
// when it was last asked, so none remains none.
type firstRoom struct {
	hosts [2]int32
	known bool
}

// roomFor returns the first two nodes that have room for a class. It is asked between
// changes only.
func (s *Rescheduler) roomFor(c int32) [2]int32 {
	r := &s.room[c]
	need := s.inv.classes[c].Need
	if r.known && s.nodes.vacancies.holds(r.hosts[0], need) && s.nodes.vacancies.holds(r.hosts[1], need) {
		return r.hosts
	}
	*r = firstRoom{[2]int32{-1, -1}, true}
	want, visits, at := s.nodes.vacancies.request(need), visitsMax, -1
	for k := range r.hosts {
		if at = s.nodes.vacancies.next(at+1, want, &visits); at < 0 {
			break
		}
		r.hosts[k] = s.nodes.vacancies.host[at]
	}
	return r.hosts
}

// Probe looks for which pods there is no room left, so that none is looked for again. In
// the middle of a change, which may be taken back, it does nothing.
func (s *Rescheduler) Probe() {
	if len(s.nodes.log) > s.nodes.kept {
		return
	}
	for c := range s.inv.classes {
		s.roomFor(int32(c))
	}
}

// kinds groups nodes that the classes cannot tell apart by labels and taints.
type kinds struct {
	s       *Inventory
	keys    []string // that classes ask about, hostname aside
	byName  map[string]int32
	example []*cluster.Node
	sums    []quantity.Vector // what daemons ask for, by kind with all labels daemons ask about
	byHost  bool              // a daemon asks for a hostname
	buf     []byte
}

func (s *Inventory) newKinds() *kinds {
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
		note(s.classes[c].Constraints.Terms)
	}
	for i := range s.model.Snapshot.Daemons {
		note(s.model.Snapshot.Daemons[i].Constraints.Terms)
		k.byHost = k.byHost || asksHost(s.model.Snapshot.Daemons[i].Constraints.Terms)
	}
	slices.Sort(k.keys)
	return k
}

// asksHost reports whether one of the terms asks for a hostname.
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
		return model.DaemonsFor(k.s.model.Space, k.s.model.Snapshot.Daemons, n)
	}
	if k.sums[kind] == nil {
		k.sums[kind] = model.DaemonsFor(k.s.model.Space, k.s.model.Snapshot.Daemons, n)
	}
	return k.sums[kind]
}

// allowed returns for each class the kinds whose labels and taints are right. For classes
// that ask for a hostname it is only known node by node: nil.
func (k *kinds) allowed() []model.Bitset {
	out := make([]model.Bitset, len(k.s.classes))
	for c := range k.s.classes {
		sh := k.s.classes[c].Constraints
		if asksHost(sh.Terms) {
			continue
		}
		out[c] = model.NewBitset(len(k.example))
		k.s.model.Meter.Spend(len(k.example) * k.s.classes[c].Weight)
		for i, n := range k.example {
			if sh.Invalid == "" && fit.Tolerated(sh.Tolerations, n.Taints) && fit.Matches(sh.Terms, n.Labels) {
				out[c].Set(i)
			}
		}
	}
	return out
}
