package simulate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// leastPrice returns what machines cost at least that hold all pods of a scenario of a family,
// when those stay whose pods may not go. Unlike the bound of a plan it knows that pods that are
// apart need a machine each, and that machines are bought whole; it knows nothing of zones.
func leastPrice(s *scenario.Scenario) float64 {
	m := market{goes: make([]int, len(s.PodGroups))}
	m.addFresh(s)
	m.addNodes(s)
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
		c := cover.Class{Size: []int64{g.CPU, g.Mem, 1, 0}, Count: m.goes[i], Bins: make([]uint64, words)}
		apart := len(g.AntiAffinity) > 0
		if apart {
			c.PerBin = 1
		}
		for b := range m.bins {
			want := g.NodeSelector[capacityKey]
			if (want == "" || want == m.capacities[b]) && !(apart && b >= m.fresh && m.has[b-m.fresh][i]) {
				c.Bins[b/64] |= 1 << (b % 64)
			}
		}
		p.Classes = append(p.Classes, c)
	}
	return cover.Solve(&p, cover.Effort{Passes: 4, Columns: 60, Prove: true}).Bound
}

// market is what can be bought, and after it the machines that stay, as if they had to be
// bought for what they cost: for each there is a token that only it has room for. Room is of
// cpu, memory, pods and tokens.
type market struct {
	bins       []cover.Bin
	capacities []string // types of capacity, by bin
	fresh      int
	has        []map[int]bool // groups on the machines that stay
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

// stays tells whether machines with a pod of the group may not go.
func stays(g *scenario.PodGroup) bool {
	return g.DoNotDisrupt || g.NodeSelector[hostnameKey] != "" || g.DisruptionsAllowed != nil && *g.DisruptionsAllowed < 1
}

// roomOf returns the cpu, memory and pods that an empty machine of the type has room for.
func roomOf(s *scenario.Scenario, t *scenario.InstanceType) []int64 {
	room := []int64{t.CPU - t.ReservedCPU, t.Mem - t.ReservedMem, t.Pods}
	for i := range s.DaemonSets {
		room[0], room[1], room[2] = room[0]-s.DaemonSets[i].CPU, room[1]-s.DaemonSets[i].Mem, room[2]-1
	}
	return room
}
