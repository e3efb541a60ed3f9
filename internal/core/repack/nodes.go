package repack

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Nodes are the running and the launched nodes, and the log by which changes to them are undone.
type Nodes struct {
	inv       *Inventory
	hosts     []host
	vacancies vacancies
	// largest is, of each resource, the most that a node has free, new ones included.
	largest  quantity.Vector
	unplaced []int32 // by class: pods that have no node
	log      []change
	kept     int   // how much of the log is final
	change   int32 // the number of the present change
	// unused are hostname domains of nodes whose launch was undone.
	unused  []int32
	present [][]int32 // by spreading group and domain: how many nodes
}

// host is a node with its pods.
type host struct {
	node  *cluster.Node   // nil: to be launched
	bin   int32           // the index of the offering that is launched; -1: it exists
	free  quantity.Vector // what no pod asks for
	own   []Share
	added []Share
	kind  int32 // see kinds
	place topology.Place
	price float64
	spot  bool
	taken bool // false: it takes no pods
	gone  bool
	since int32 // the change that launched it; -1: it exists
}

// Share is N pods of a class on a node.
type Share struct {
	Class, N int32
	// Change is the number of the change that put them there.
	Change int32
}

// addHosts makes a host of each node, in the snapshot's order. at is the class of constraints, and
// running the ledger's class of each entry of the nodes' pods.
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
	s.inv.kinds = kinds.allowed()
	if ruled {
		s.inv.topo.LocatePools()
		if !s.inv.model.Options.BuyableBinds {
			s.inv.ledger.ForgetPossible()
		}
	}
}

// sharesOf counts pods by class, and appends the counts to an empty list.
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

// measure works out largest.
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

// Hosts returns how many nodes there are, launched ones included. The first are those of the
// snapshot, in its order.
func (s *Nodes) Hosts() int { return len(s.hosts) }

// Node returns the node of the snapshot; nil for a launched one.
func (s *Nodes) Node(h int) *cluster.Node { return s.hosts[h].node }

// Price returns what a node costs, in dollars an hour; NaN if that is not known.
func (s *Nodes) Price(h int) float64 { return s.hosts[h].price }

// IsGone reports whether the node was removed.
func (s *Nodes) IsGone(h int) bool { return s.hosts[h].gone }

// Added returns the pods that changes put on the node.
func (s *Nodes) Added(h int) []Share { return s.hosts[h].added }

// Own returns the pods that came with the node.
func (s *Nodes) Own(h int) []Share { return s.hosts[h].own }

// Since returns the number of the change that launched the node; -1 for an existing node.
func (s *Nodes) Since(h int) int32 { return s.hosts[h].since }

// Bin returns the offering of a launched node; -1 for an existing node.
func (s *Nodes) Bin(h int) int32 { return s.hosts[h].bin }

// IsSpot reports whether a node is a spot node.
func (s *Nodes) IsSpot(h int) bool { return s.hosts[h].spot }

// Unplaced returns how many pods of a class have no node.
func (s *Nodes) Unplaced(class int32) int32 { return s.unplaced[class] }

// AnyUnplaced reports whether a pod has no node.
func (s *Nodes) AnyUnplaced() bool {
	return slices.ContainsFunc(s.unplaced, func(n int32) bool { return n > 0 })
}

// change is one entry of the log by which changes are undone.
type change struct {
	kind  changeKind
	host  int32
	class int32
	n     int32
}

type changeKind uint8

const (
	changeAdd changeKind = iota
	changeRemove
	changeLaunch
	changeRelease
)

// appear notes that there is a node in these domains, and vanish that it is no longer there.
func (s *Nodes) appear(at *topology.Place) {
	s.inv.ledger.Present(at)
	s.inv.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.inv.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			for int(d) >= len(s.present[g]) {
				s.present[g] = append(s.present[g], 0)
			}
			s.present[g][d]++
		}
	})
}

func (s *Nodes) vanish(at *topology.Place) {
	s.inv.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.inv.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			if s.present[g][d]--; s.present[g][d] == 0 {
				s.inv.ledger.Absent(g, d)
			}
		}
	})
}

// mayTake reports whether everything but resources allows a pod of the class on a node.
func (s *Nodes) mayTake(c int32, h int) bool {
	return s.isOpenTo(c, h) && (len(s.inv.classes[c].Keys) == 0 || s.inv.mayJoin(c, &s.hosts[h].place))
}

// isOpenTo reports whether everything but resources and rules between pods allows a pod of the
// class on a node.
func (s *Nodes) isOpenTo(c int32, h int) bool {
	cl, host := &s.inv.classes[c], &s.hosts[h]
	return !host.gone && host.taken && s.accepts(host, c) && (len(cl.Constraints.Ports) == 0 || !s.portTaken(host, cl.Constraints.Ports)) &&
		(host.node != nil || !s.inv.hasConflict(s.inv.offerings[host.bin].at, c, host.added))
}

// accepts reports whether a class allows the labels of a node and tolerates its taints.
func (s *Nodes) accepts(host *host, c int32) bool {
	if host.node == nil {
		return s.inv.offerings[host.bin].allowed.Has(int(c))
	}
	if allowed := s.inv.kinds[c]; allowed != nil {
		return allowed.Has(int(host.kind))
	}
	sh := s.inv.classes[c].Constraints
	return sh.Invalid == "" && fit.Tolerated(sh.Tolerations, host.node.Taints) && fit.Matches(sh.Terms, host.node.Labels)
}

// portTaken reports whether one of the host ports is taken on the node.
func (s *Nodes) portTaken(host *host, want []cluster.HostPort) bool {
	if host.node != nil {
		return !model.PortsFree(s.inv.model.Meter, want, host.node.Ports) || s.inv.portAmong(host.added, want)
	}
	return s.inv.portTaken(&s.inv.offerings[host.bin], host.added, want)
}
