package simulate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// fleet is the nodes of a scenario, as if its pods had no rules but that some may not move.
type fleet struct {
	sizes []vector // of pods, by class
	fresh []priced // what can be launched
	owned []priced // with the pods on it
}

// vector is cpu in millicores and memory in MiB: pods are rarely what a node is full of.
type vector [2]float64

func vectorOf(room []int64) vector { return vector{float64(room[0]), float64(room[1])} }

func (v vector) times(w vector) float64 { return v[0]*w[0] + v[1]*w[1] }

// priced is a node, without its pods that may not move and the room they take.
type priced struct {
	room  vector
	price float64
	pods  []int // classes
	stays bool  // there are pods that may not move
}

func newFleet(s *scenario.Scenario) *fleet {
	f := &fleet{}
	for i := range s.PodGroups {
		f.sizes = append(f.sizes, vector{float64(s.PodGroups[i].CPU), float64(s.PodGroups[i].Mem)})
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
			f.fresh = append(f.fresh, priced{room: vectorOf(roomOf(s, t)), price: o.Price})
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		m := priced{room: vectorOf(roomOf(s, types[n.Type])), price: prices[n.Type+n.Zone+n.CapacityType]}
		for _, share := range n.Pods {
			if !stays(&s.PodGroups[share.Group()]) {
				m.pods = append(m.pods, slices.Repeat([]int{share.Group()}, share.Count())...)
				continue
			}
			size, count := f.sizes[share.Group()], float64(share.Count())
			m.stays, m.room = true, vector{m.room[0] - count*size[0], m.room[1] - count*size[1]}
		}
		f.owned = append(f.owned, m)
	}
	return f
}

// worths are what things are worth, in evictions: a dollar an hour, a unit of each dimension.
type worths struct {
	dollar float64
	room   vector
}

// least returns how many pods must be evicted at least before the nodes cost no more
// than a price, whatever the method: those of nodes that stay may move, too. It is the
// dual of the linear program for that, so it is a bound for all worths at which no new
// node holds more than it costs. Pods are worth their room wherever they are, and one more
// where they need not move; a node that is kept holds no more than this for its price, and
// one with pods that may not move is kept in any case.
func (f *fleet) least(price float64, w worths) float64 {
	sum := -w.dollar * price
	// Where one dimension stays free for want of the other, that is worth more than elsewhere:
	// so much that still no pod is worth more than its room.
	var scarce vector
	for _, size := range f.sizes {
		scarce[0] = max(scarce[0], w.room.times(size)/size[0])
		scarce[1] = max(scarce[1], w.room.times(size)/size[1])
	}
	for i := range f.owned {
		m := &f.owned[i]
		full := w.room.times(m.room) + float64(len(m.pods))
		cpu, memory := scarce[0]*m.room[0], scarce[1]*m.room[1]
		for _, c := range m.pods {
			size := f.sizes[c]
			worth := w.room.times(size)
			sum += 1 + worth
			cpu += max(0, 1+worth-scarce[0]*size[0])
			memory += max(0, 1+worth-scarce[1]*size[1])
		}
		kept := w.dollar*m.price - min(full, cpu, memory)
		if !m.stays {
			kept = min(0, kept)
		}
		sum += kept
	}
	return sum
}

// floor returns the best of these bounds, which are a concave function of the worths.
func (f *fleet) floor(price float64) int {
	best := peak(0, 1, func(memory float64) float64 {
		room := vector{1 - memory, memory / 4}
		dear := math.Inf(1) // what a new node costs for its room, at least
		for _, b := range f.fresh {
			dear = min(dear, b.price/room.times(b.room))
		}
		return peak(0, 1000, func(dollar float64) float64 {
			return peak(0, dollar*dear, func(scale float64) float64 {
				return f.least(price, worths{dollar, vector{room[0] * scale, room[1] * scale}})
			})
		})
	})
	return int(math.Ceil(best - 1e-6))
}

// peak returns the highest value found of a function that rises and then falls, by golden
// sections.
func peak(low, high float64, of func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	x, y := of(a), of(b)
	best := max(x, y)
	for range 20 {
		if x < y {
			low, a, x = a, b, y
			b = low + golden*(high-low)
			y = of(b)
		} else {
			high, b, y = b, a, x
			a = high - golden*(high-low)
			x = of(a)
		}
		best = max(best, x, y)
	}
	return best
}

// TestTheFloorIsBelowTheOptimum compares the floor with the fewest evictions by which a small
// fleet can come to a price, found by trying all places of all pods.
func TestTheFloorIsBelowTheOptimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		node := func(name string) priced {
			cpu := rapid.IntRange(2, 8).Draw(t, name)
			memory := cpu * rapid.IntRange(1, 8).Draw(t, "memory")
			return priced{room: vector{float64(cpu), float64(memory)}, price: rapid.Float64Range(0.1, 1).Draw(t, "price")}
		}
		f := &fleet{sizes: []vector{{1, 1}, {1, 8}, {2, 4}}, fresh: []priced{node("new")}}
		before, target, pods := 0.0, []int{}, []int{}
		for h := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			m := node("old")
			m.stays = rapid.Bool().Draw(t, "stays")
			left := m.room
			for range rapid.IntRange(0, 2).Draw(t, "pods") {
				c := rapid.IntRange(0, 2).Draw(t, "class")
				if size := f.sizes[c]; size[0] <= left[0] && size[1] <= left[1] {
					left = vector{left[0] - size[0], left[1] - size[1]}
					m.pods, pods, target = append(m.pods, c), append(pods, c), append(target, h)
				}
			}
			f.owned = append(f.owned, m)
			before += m.price
		}
		goal := before * rapid.Float64Range(0.2, 1).Draw(t, "goal")
		all := slices.Concat(f.owned, f.fresh, f.fresh)
		left := make([]vector, len(all))
		for h := range all {
			left[h] = all[h].room
		}
		fewest := math.MaxInt
		var try func(p, evicted int)
		try = func(p, evicted int) {
			if p == len(pods) {
				spent := 0.0
				for h := range all {
					if all[h].stays || left[h] != all[h].room {
						spent += all[h].price
					}
				}
				if spent <= goal {
					fewest = min(fewest, evicted)
				}
				return
			}
			size := f.sizes[pods[p]]
			for h := range all {
				if was := left[h]; size[0] <= was[0] && size[1] <= was[1] {
					left[h] = vector{was[0] - size[0], was[1] - size[1]}
					try(p+1, evicted+min(1, max(h-target[p], target[p]-h)))
					left[h] = was
				}
			}
		}
		try(0, 0)
		if floor := f.floor(goal); fewest < math.MaxInt && floor > fewest {
			t.Fatalf("%d evictions are enough, the floor is %d", fewest, floor)
		}
	})
}
