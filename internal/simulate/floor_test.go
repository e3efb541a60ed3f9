package simulate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// fleet is the machines of a scenario whose pods have no rules, as bins.
type fleet struct {
	classes []cover.Class
	fresh   []cover.Bin // what can be bought
	owned   []cover.Bin // what there is, those that are alike once
	pods    []int       // on each of the owned
	all     int         // pods
}

func newFleet(s *scenario.Scenario) *fleet {
	f := &fleet{}
	for i := range s.PodGroups {
		g := &s.PodGroups[i]
		f.classes = append(f.classes, cover.Class{Size: []int64{g.CPU, g.Mem, 1}})
	}
	types := map[string]*scenario.InstanceType{}
	prices := map[string]float64{}
	for i := range s.InstanceTypes {
		t := &s.InstanceTypes[i]
		types[t.Name] = t
		for _, o := range t.Offerings {
			if prices[t.Name+o.Zone+o.CapacityType] = o.Price; o.Unavailable || !isAMD64(t) {
				continue
			}
			f.fresh = append(f.fresh, cover.Bin{Capacity: roomOf(s, t), Price: o.Price})
		}
	}
	type kind struct {
		typ   string
		price float64
		pods  int
	}
	at := map[kind]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		k := kind{typ: n.Type, price: prices[n.Type+n.Zone+n.CapacityType]}
		for _, share := range n.Pods {
			k.pods += share.Count()
			f.classes[share.Group()].Count += share.Count()
		}
		f.all += k.pods
		b, seen := at[k]
		if !seen {
			b = len(f.owned)
			at[k] = b
			f.owned = append(f.owned, cover.Bin{Capacity: roomOf(s, types[n.Type]), Price: k.price})
			f.pods = append(f.pods, k.pods)
		}
		f.owned[b].Left++
	}
	return f
}

// roomOf returns what a machine of the type has for pods.
func roomOf(s *scenario.Scenario, t *scenario.InstanceType) []int64 {
	room := []int64{t.CPU - t.ReservedCPU, t.Mem - t.ReservedMem, t.Pods}
	for i := range s.DaemonSets {
		room[0], room[1], room[2] = room[0]-s.DaemonSets[i].CPU, room[1]-s.DaemonSets[i].Mem, room[2]-1
	}
	return room
}

// least returns how many pods must be evicted at least before the machines cost no more
// than a price, given what an eviction may save. Whatever is kept and bought: its price, and
// what exceeds the goal, times the pods that a dollar is worth, is part of the sum; pods on
// machines that are kept are taken off. What all bins cost at least, by that reckoning, when
// they hold all pods, is a bound for every choice of podsPerDollar.
func (f *fleet) least(price, podsPerDollar float64) float64 {
	p := cover.Problem{Dims: 3}
	sum := float64(f.all) - podsPerDollar*price
	for i, b := range f.owned {
		worth := podsPerDollar*b.Price - float64(f.pods[i])
		sum += float64(b.Left) * min(0, worth) // those that are worth keeping cost nothing more
		p.Bins = append(p.Bins, cover.Bin{Capacity: b.Capacity, Price: max(0, worth), Left: b.Left})
	}
	for _, b := range f.fresh {
		p.Bins = append(p.Bins, cover.Bin{Capacity: b.Capacity, Price: podsPerDollar * b.Price})
	}
	everywhere := make([]uint64, (len(p.Bins)+63)/64)
	for b := range p.Bins {
		everywhere[b/64] |= 1 << (b % 64)
	}
	for _, c := range f.classes {
		c.Bins = everywhere
		p.Classes = append(p.Classes, c)
	}
	bound, _ := cover.Bound(&p)
	return sum + bound
}

// floor returns the best of these bounds: they are highest somewhere in the middle.
func (f *fleet) floor(price float64) int {
	low, high := 0.0, 1000.0
	best := 0.0
	for range 30 {
		a, b := low+(high-low)/3, high-(high-low)/3
		x, y := f.least(price, a), f.least(price, b)
		best = max(best, x, y)
		if x < y {
			low = a
		} else {
			high = b
		}
	}
	return int(math.Ceil(best - 1e-6))
}

// TestTheFloorIsBelowTheOptimum compares the floor with the fewest evictions by which a small
// fleet can come to a price: those of the best set of machines to keep that leaves money for
// one new machine, found by trying all sets.
func TestTheFloorIsBelowTheOptimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{classes: []cover.Class{{Size: []int64{1000, 1024, 1}}}}
		price := 0.0
		for range rapid.IntRange(1, 6).Draw(t, "machines") {
			room := rapid.Int64Range(1, 8).Draw(t, "room")
			b := cover.Bin{Capacity: []int64{1000 * room, 1024 * room, room}, Price: rapid.Float64Range(0.1, 1).Draw(t, "price"), Left: 1}
			pods := int(rapid.Int64Range(0, room).Draw(t, "pods"))
			f.owned, f.pods = append(f.owned, b), append(f.pods, pods)
			f.all += pods
			price += b.Price
		}
		f.classes[0].Count = f.all
		room := rapid.Int64Range(1, 8).Draw(t, "room of the new")
		fresh := cover.Bin{Capacity: []int64{1000 * room, 1024 * room, room}, Price: rapid.Float64Range(0.1, 1).Draw(t, "price of the new")}
		f.fresh = []cover.Bin{fresh}
		goal := price * rapid.Float64Range(0.3, 1).Draw(t, "goal")
		fewest := math.MaxInt
		for set := range 1 << len(f.owned) {
			evicted, spent, free := 0, 0.0, 0
			for i, b := range f.owned {
				if set>>i&1 == 0 {
					evicted += f.pods[i]
					continue
				}
				spent += b.Price
				free += int(b.Capacity[2]) - f.pods[i]
			}
			for free < evicted {
				spent, free = spent+fresh.Price, free+int(room)
			}
			if spent <= goal {
				fewest = min(fewest, evicted)
			}
		}
		if floor := f.floor(goal); fewest < math.MaxInt && floor > fewest {
			t.Fatalf("%d evictions are enough, the floor is %d", fewest, floor)
		}
	})
}
