package simulate

import (
	"cmp"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// leastPrice returns what nodes cost at least that hold all pods of a scenario of a family,
// when those stay whose pods may not go. Unlike the bound of a plan it knows that pods that are
// apart need a node each, and that nodes are launched whole; it knows nothing of zones.
func leastPrice(s *scenario.Scenario) float64 { return leastPriceOf(s, poolMin) }

// leastPriceOf is leastPrice with nodes that stay taken together where there are more than so many.
func leastPriceOf(s *scenario.Scenario, most int) float64 {
	m := market{goes: make([]int, len(s.PodGroups))}
	m.addFresh(s)
	m.addNodes(s)
	without := make([]int, len(s.PodGroups)) // nodes that stay and have no pod of the group
	for i := range without {
		for _, has := range m.has {
			if !has[i] {
				without[i]++
			}
		}
	}
	pooled := len(m.has) > most
	if pooled {
		m.pool()
	}
	words := (len(m.bins) + 63) / 64
	p := cover.Problem{Dims: 4, Bins: m.bins}
	for i := range m.has {
		token := cover.Class{Size: []int64{0, 0, 0, 1}, Count: 1, Bins: make([]uint64, words)}
		b := m.fresh + i
		token.Bins[b/64] |= 1 << (b % 64)
		p.Classes = append(p.Classes, token)
	}
	for i := range s.PodGroups {
		g := &s.PodGroups[i]
		add := func(count, perBin int, may func(b int) bool) {
			c := cover.Class{Size: []int64{g.CPU, g.Mem, 1, 0}, Count: count, PerBin: perBin, Bins: make([]uint64, words)}
			for b := range m.bins {
				if want := g.NodeSelector[capacityKey]; (want == "" || want == m.capacities[b]) && may(b) {
					c.Bins[b/64] |= 1 << (b % 64)
				}
			}
			if count > 0 {
				p.Classes = append(p.Classes, c)
			}
		}
		switch apart := len(g.AntiAffinity) > 0; {
		case apart && pooled: // so many may be on nodes that stay, one on each
			add(m.goes[i]-without[i], 1, func(b int) bool { return b < m.fresh })
			add(min(m.goes[i], without[i]), 0, func(int) bool { return true })
		case apart:
			add(m.goes[i], 1, func(b int) bool { return b < m.fresh || !m.has[b-m.fresh][i] })
		default:
			add(m.goes[i], 0, func(int) bool { return true })
		}
	}
	return cover.Solve(&p, cover.Effort{Passes: 4, Columns: 60, Prove: true}).Bound
}

// market is what can be launched, and after it the nodes that stay, as if they had to be
// launched for what they cost: for each there is a token that only it has room for. Room is of
// cpu, memory, pods and tokens.
type market struct {
	bins       []cover.Bin
	capacities []string // types of capacity, by bin
	fresh      int
	has        []map[int]bool // groups on the nodes that stay
	goes       []int          // pods on the others, by group
}

func (m *market) addFresh(s *scenario.Scenario) {
	for i := range s.InstanceTypes {
		t := &s.InstanceTypes[i]
		for _, o := range t.Offerings {
			if !o.Unavailable && isAMD64(t) {
				m.bins = append(m.bins, cover.Bin{Capacity: append(roomOf(s, t), 0), Price: o.Price})
				m.capacities = append(m.capacities, o.CapacityType)
			}
		}
	}
	m.fresh = len(m.bins)
}

func (m *market) addNodes(s *scenario.Scenario) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !slices.ContainsFunc(n.Pods, func(share scenario.Share) bool { return stays(&s.PodGroups[share.Group()]) }) {
			for _, share := range n.Pods {
				m.goes[share.Group()] += share.Count()
			}
			continue
		}
		t := &s.InstanceTypes[slices.IndexFunc(s.InstanceTypes, func(t scenario.InstanceType) bool { return t.Name == n.Type })]
		at := slices.IndexFunc(t.Offerings, func(o scenario.Offering) bool { return o.Zone == n.Zone && o.CapacityType == n.CapacityType })
		room, groups := append(roomOf(s, t), 1), map[int]bool{}
		for _, share := range n.Pods {
			g, k := &s.PodGroups[share.Group()], int64(share.Count())
			room[0], room[1], room[2] = room[0]-g.CPU*k, room[1]-g.Mem*k, room[2]-k
			groups[share.Group()] = true
		}
		m.bins = append(m.bins, cover.Bin{Capacity: room, Price: t.Offerings[at].Price})
		m.capacities, m.has = append(m.capacities, n.CapacityType), append(m.has, groups)
	}
}

// More than poolMin nodes that stay are reckoned with in poolParts parts for each type of
// capacity, each as if it were one node: what fits them then fits no less, so that the bound
// is no higher, and it takes no time. With 500 nodes it is 81.11 where it would be 81.27.
const poolMin, poolParts = 500, 4

// pool makes one of nodes that stay and have cpu and memory left in about the same measure.
func (m *market) pool() {
	measure := func(b int) float64 { return float64(m.bins[b].Capacity[0]) / float64(m.bins[b].Capacity[1]+1) }
	bins, capacities := slices.Clone(m.bins[:m.fresh]), slices.Clone(m.capacities[:m.fresh])
	for _, capacity := range []string{onDemandType, spotType} {
		var of []int
		for b := m.fresh; b < len(m.bins); b++ {
			if m.capacities[b] == capacity {
				of = append(of, b)
			}
		}
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(measure(a), measure(b)) })
		for part := range slices.Chunk(of, max(1, (len(of)+poolParts-1)/poolParts)) {
			whole := cover.Bin{Capacity: []int64{0, 0, 0, 1}}
			for _, b := range part {
				for d := range 3 {
					whole.Capacity[d] += m.bins[b].Capacity[d]
				}
				whole.Price += m.bins[b].Price
			}
			bins, capacities = append(bins, whole), append(capacities, capacity)
		}
	}
	m.bins, m.capacities, m.has = bins, capacities, make([]map[int]bool, len(bins)-m.fresh)
}

// stays reports whether nodes with a pod of the group may not go.
func stays(g *scenario.PodGroup) bool {
	return g.DoNotDisrupt || g.NodeSelector[hostnameKey] != "" || g.DisruptionsAllowed != nil && *g.DisruptionsAllowed < 1
}

// roomOf returns the cpu, memory and pods that an empty node of the type has room for.
func roomOf(s *scenario.Scenario, t *scenario.InstanceType) []int64 {
	room := []int64{t.CPU - t.ReservedCPU, t.Mem - t.ReservedMem, t.Pods}
	for i := range s.DaemonSets {
		room[0], room[1], room[2] = room[0]-s.DaemonSets[i].CPU, room[1]-s.DaemonSets[i].Mem, room[2]-1
	}
	return room
}

// TestTheBoundOfNodesTakenTogether is no higher than that of each by itself, and little lower.
func TestTheBoundOfNodesTakenTogether(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{0, 7} {
		s := family{name: "all", fill: 0.5, spot: 0.5, guarded: 0.2, held: 0.02, apart: 0.4, local: 0.1}.generate(t, 60, seed)
		together, each := leastPriceOf(s, 0), leastPrice(s)
		if together > each*1.0001 || together < 0.97*each {
			t.Errorf("seed %d: at least %.4f together, %.4f each", seed, together, each)
		}
	}
}
