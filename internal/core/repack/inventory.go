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

// Inventory is what a session's changes do not alter: the pod equivalence classes, the offerings
// that can be launched, and what pods and resources are worth.
type Inventory struct {
	model   *model.Model
	topo    *place.Topology
	ledger  *topology.Ledger
	classes []model.PodClass
	class   map[*cluster.Constraints]int32
	// size is the classes in the order in which they are placed: dependents after the pods that they
	// depend on, then the largest first.
	size []int32
	// offerings are what can be launched, by price, without offerings that are never better than
	// another.
	offerings []offering
	// spotOfferings are the same at the lowest spot prices. offerings has spot at the price for which
	// there are spotOfferingsMin alternatives.
	spotOfferings []offering
	// spotOfferingsMin is how many spot offerings a launch should leave open.
	spotOfferingsMin int
	// problem is to launch new nodes for all pods that the session may move.
	problem cover.Problem
	// worth is what one pod of each class costs at least on new nodes, its dual price.
	worth []float64
	// least is the same at the prices of spotOfferings.
	least []float64
	// prices is what a unit of each resource is worth, priced what a pod of each class needs of each
	// resource at these prices, and norms the sum of the squares of that for each class.
	prices, priced, norms []float64
	// yields says of each class whether it leaves on-demand nodes to others: it may be on spot, and
	// there are classes that may not.
	yields    []bool
	conflicts [][]model.Bitset // see conflicts.go
	// ledgerIndex is the class that pod constraints are in the ledger.
	ledgerIndex map[*cluster.Constraints]int
	// keyed says of each class whether rules between pods concern it.
	keyed []bool
	// kinds are, by class, the kinds of nodes that the class allows; nil: each node has to be asked.
	kinds []model.Bitset
	// newHost is a hostname domain for new nodes that are not launched yet.
	newHost int32
	// needs is what a pod of each class asks for, one class after another. blocks is the same, in
	// blocks of four resources. none is zero of each resource.
	needs  []int64
	blocks [][4]float64
	none   quantity.Vector
	// supplies are the names of the model's supplies, sorted.
	supplies []string
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

// returnSupplies gives what a node of an offering draws back to the supplies; a sign of -1 takes it.
func (s *Inventory) returnSupplies(b *offering, sign int) {
	for _, d := range b.pool.Offerings[b.index].Draws {
		s.model.Supplies[d.Supply] += sign * d.Units
	}
}

// stock reports whether the limits of an offering's pool, and the supplies, allow one more node.
func (s *Inventory) stock(b int) bool {
	bin := &s.offerings[b]
	_, covered := s.model.Supplies.Short(bin.pool.Offerings[bin.index])
	return covered && bin.pool.NodesLeft > 0 && bin.pool.Types[bin.typ].Amounts.Fits(bin.pool.Left)
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

// portAmong reports whether one of the pods takes one of the host ports.
func (s *Inventory) portAmong(pods []Share, want []cluster.HostPort) bool {
	return slices.ContainsFunc(pods, func(sh Share) bool {
		return !model.PortsFree(s.model.Meter, want, s.classes[sh.Class].Constraints.Ports)
	})
}

// evenness returns how alike what a pod of a class needs and what is free are: the square of the
// cosine between them, with each resource at its price.
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

// addClasses makes a class for each set of constraints of reschedulable and of pending pods.
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

// orderClasses sorts the classes: dependents after the others, and large ones before small ones.
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

// Class returns the class that constraints of the snapshot are.
func (s *Inventory) Class(sh *cluster.Constraints) int32 { return s.class[sh] }

// PriceOf returns what a node of an offering costs, in dollars an hour.
func (s *Inventory) PriceOf(bin int32) float64 { return s.offerings[bin].price }
