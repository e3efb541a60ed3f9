package repack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

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
	// ledgerIndex is the index of pod constraints in the ledger.
	ledgerIndex map[*cluster.Constraints]int
	// keyed says of each class whether rules between pods concern it.
	keyed []bool
	// kinds are, by class, the kinds of nodes whose labels and taints are right; nil: each node
	// has to be asked.
	kinds []model.Bitset
	// newHost is a hostname domain for nodes that are only thought of.
	newHost int32
	// needs is what a pod of each class asks for, one class after another, and blocks the same,
	// four resources at a time. none is nothing of each.
	needs  []int64
	blocks [][4]float64
	none   quantity.Vector
}

// offering is one offering that can be launched: a type in a zone at a capacity type.
type offering struct {
	pool    *model.Pool
	at      int // the pool's index in the model
	typ     int32
	index   int
	free    quantity.Vector
	price   float64
	allowed model.Bitset // classes
	place   topology.Place
}

func (b *offering) isSpot() bool { return b.pool.Offerings[b.index].CapacityType == label.Spot }

// blocksOf returns how many blocks of four a number of resources takes.
func blocksOf(resources int) int { return (resources + 3) / 4 }

// stateNeeds states what the classes need, and which of them rules between pods concern.
func (s *Inventory) stateNeeds() {
	s.none = make(quantity.Vector, len(s.model.Space))
	blocks := blocksOf(len(s.model.Space))
	s.blocks, s.needs = make([][4]float64, blocks*len(s.classes)), make([]int64, 0, len(s.none)*len(s.classes))
	s.keyed = make([]bool, len(s.classes))
	for c := range s.classes {
		s.needs = append(s.needs, s.classes[c].Need...)
		for r, n := range s.classes[c].Need {
			s.blocks[c*blocks+r/4][r%4] = float64(n)
		}
		s.keyed[c] = len(s.classes[c].Keys) > 0
	}
	s.ledgerIndex = map[*cluster.Constraints]int{}
	for i, sh := range s.ledger.Constraints() {
		s.ledgerIndex[sh] = i
	}
}

// stock reports whether the pool's limits allow one more of the bin.
func (s *Inventory) stock(b int) bool {
	bin := &s.offerings[b]
	return bin.pool.NodesLeft > 0 && bin.pool.Types[bin.typ].Amounts.Fits(bin.pool.Left)
}

// needOf returns what a pod of the class asks for.
func (s *Inventory) needOf(c int32) []int64 {
	dims := int32(len(s.model.Space))
	return s.needs[c*dims : (c+1)*dims]
}

// fits reports whether what is free is enough for a pod of the class.
func (s *Inventory) fits(c int32, free quantity.Vector) bool { return model.RoomFor(free, s.needOf(c)) }

// mayJoin reports whether rules between pods allow a pod of the class in the domains.
func (s *Inventory) mayJoin(c int32, at *topology.Place) bool {
	return s.topo.Check(&s.classes[c], s.classes[c].Last(), at).IsYes()
}

// portTaken reports whether one of the host ports is taken on a node of the offering with
// these pods.
func (s *Inventory) portTaken(b *offering, pods []Share, want []cluster.HostPort) bool {
	return !model.PortsFree(s.model.Meter, want, b.pool.Types[b.typ].Ports) || s.portAmong(pods, want)
}

// portAmong reports whether one of the pods has a host port that is wanted.
func (s *Inventory) portAmong(pods []Share, want []cluster.HostPort) bool {
	return slices.ContainsFunc(pods, func(sh Share) bool {
		return !model.PortsFree(s.model.Meter, want, s.classes[sh.Class].Constraints.Ports)
	})
}

// evenness is the square of the cosine between what a pod of a class needs and what is free, each
// resource by its price.
func (s *Inventory) evenness(c int32, free quantity.Vector) float64 {
	dot, ff := 0.0, 0.0
	for r, x := range s.priced[int(c)*len(free):][:len(free)] {
		if p := s.prices[r]; p > 0 {
			y := float64(free[r]) * p
			dot, ff = dot+x*y, ff+y*y
		}
	}
	if s.norms[c] == 0 || ff == 0 {
		return 0
	}
	return dot * dot / (s.norms[c] * ff)
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

// Classes returns how many classes there are.
func (s *Inventory) Classes() int { return len(s.classes) }

// WorthOf returns what one pod of a class costs at least on new nodes.
func (s *Inventory) WorthOf(class int32) float64 { return s.worth[class] }

// Class returns the class of pod constraints that a pod of the snapshot has.
func (s *Inventory) Class(sh *cluster.Constraints) int32 { return s.class[sh] }

// PriceOf returns what one node of the bin costs per hour in dollars.
func (s *Inventory) PriceOf(bin int32) float64 { return s.offerings[bin].price }
