package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// family is a kind of cluster to be consolidated: nodes of many types, each with some
// pods of many workloads, a good part of its room unused.
type family struct {
	name string
	// spot is the share of spot offerings, of nodes and of what can be launched: 0, 1 or between.
	spot float64
	// Shares of workloads with each trait.
	guarded, held, spread, apart, local float64
	fill                                float64 // share of a node's room that pods ask for
	small                               bool    // pods are small, and so many
	thin                                int     // only one in so many types can be launched; 0: all
	// karpenter is what Karpenter ends with, by how many nodes there are at first.
	karpenter map[int]karpenter
}

const (
	spotType     = "spot"
	onDemandType = "on-demand"
	capacityKey  = "karpenter.sh/capacity-type"
	zoneKey      = "topology.kubernetes.io/zone"
	hostnameKey  = "kubernetes.io/hostname"
)

// generate returns a cluster of the family. Prices of spot are a third of on-demand's, a
// little different in each zone.
func (f family) generate(t tester, nodes int, seed uint64) *scenario.Scenario {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	from, err := scenario.Read("testdata/p1b-plain-aws-1000.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario.Scenario{
		Format: scenario.Format, Name: fmt.Sprintf("%s-%d", f.name, nodes), DaemonSets: []scenario.DaemonSet{{Name: "agent", CPU: 150, Mem: 300}},
		InstanceTypes: from.InstanceTypes, NodePools: []scenario.NodePool{{Name: "default", Requirements: []scenario.Requirement{
			{Key: "kubernetes.io/arch", Op: "In", Values: []string{"amd64"}},
		}}},
	}
	if f.spot == 0 { // else Karpenter asks for spot, of which there is none
		pool := &s.NodePools[0]
		pool.Requirements = append(pool.Requirements, scenario.Requirement{Key: capacityKey, Op: "In", Values: []string{onDemandType}})
	}
	if f.thin > 0 {
		s.InstanceTypes = nil
		for i := 0; i < len(from.InstanceTypes); i += f.thin {
			s.InstanceTypes = append(s.InstanceTypes, from.InstanceTypes[i])
		}
	}
	var types []*scenario.InstanceType
	for i := range s.InstanceTypes {
		t := &s.InstanceTypes[i]
		var spot []scenario.Offering
		for _, o := range t.Offerings {
			if o.CapacityType == onDemandType && f.spot > 0 {
				o.CapacityType, o.Price = spotType, o.Price*(0.25+0.15*r.Float64())
				spot = append(spot, o)
			}
		}
		if f.spot == 1 {
			t.Offerings = nil
		}
		t.Offerings = append(t.Offerings, spot...)
		if t.CPU >= 4000 && t.CPU <= 16000 && len(t.Ext) == 0 && len(t.Offerings) > 0 && isAMD64(t) {
			types = append(types, t)
		}
	}
	f.workloads(s, r, min(300, max(20, nodes/10)))
	for i := range nodes {
		f.node(s, r, types, i)
	}
	return s
}

func isAMD64(t *scenario.InstanceType) bool {
	for _, q := range t.Reqs {
		if q.Key == "kubernetes.io/arch" {
			return len(q.Values) == 1 && q.Values[0] == "amd64"
		}
	}
	return false
}

// workloads adds groups of pods.
func (f family) workloads(s *scenario.Scenario, r *rand.Rand, n int) {
	for g := range n {
		app := map[string]string{"app": fmt.Sprintf("w%04d", g)}
		cpu := []int64{100, 200, 250, 500, 1000, 2000}[r.IntN(6)]
		if f.small {
			cpu = []int64{50, 100, 150, 250, 500, 1000}[r.IntN(6)]
		}
		group := scenario.PodGroup{CPU: cpu, Mem: cpu * []int64{1, 2, 4, 6}[r.IntN(4)] * 1024 / 1000, Labels: app}
		if r.Float64() < f.guarded {
			allowed := int32(r.IntN(6))
			group.DisruptionsAllowed = &allowed
		}
		group.DoNotDisrupt = r.Float64() < f.held
		switch {
		case r.Float64() < f.spread:
			group.Spread = []scenario.Spread{{Key: zoneKey, MaxSkew: 1 + r.Int32N(4), MatchLabels: app}}
		case r.Float64() < f.apart:
			group.AntiAffinity = []scenario.Term{{Key: hostnameKey, MatchLabels: app}}
		case r.Float64() < f.local:
			group.NodeSelector = map[string]string{hostnameKey: fmt.Sprintf("node-%05d", r.IntN(n*10))}
		case f.spot > 0 && f.spot < 1 && r.Float64() < 0.4:
			group.NodeSelector = map[string]string{capacityKey: onDemandType}
		}
		s.PodGroups = append(s.PodGroups, group)
	}
}

// node adds a node with pods.
func (f family) node(s *scenario.Scenario, r *rand.Rand, types []*scenario.InstanceType, i int) {
	t := types[r.IntN(len(types))]
	o := t.Offerings[r.IntN(len(t.Offerings))]
	n := scenario.Node{Name: fmt.Sprintf("node-%05d", i), Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Pool: "default"}
	cpu, mem, pods := t.CPU-t.ReservedCPU-150, t.Mem-t.ReservedMem-300, t.Pods-1
	want := float64(cpu) * f.fill * (0.5 + r.Float64())
	count := map[int]int{}
	var order []int
	for tries := 0; float64(t.CPU-t.ReservedCPU-150-cpu) < want && tries < 200; tries++ {
		g := r.IntN(len(s.PodGroups))
		p := &s.PodGroups[g]
		capacity, zone := p.NodeSelector[capacityKey], p.NodeSelector[hostnameKey]
		if p.CPU > cpu || p.Mem > mem || pods < 1 || capacity != "" && capacity != o.CapacityType || zone != "" && zone != n.Name ||
			len(p.AntiAffinity) > 0 && count[g] > 0 || len(p.Spread) > 0 && s.Nodes != nil && !balanced(s, g, o.Zone, count[g]) {
			continue
		}
		if count[g] == 0 {
			order = append(order, g)
		}
		count[g]++
		cpu, mem, pods = cpu-p.CPU, mem-p.Mem, pods-1
	}
	for _, g := range order {
		n.Pods = append(n.Pods, scenario.Share{g, count[g]})
	}
	s.Nodes = append(s.Nodes, n)
}

// balanced reports whether one more pod of a group that is spread over zones may be in one,
// with those of the node that is being filled.
func balanced(s *scenario.Scenario, g int, zone string, here int) bool {
	count := map[string]int{"us-east-1a": 0, "us-east-1b": 0, "us-east-1c": 0}
	for i := range s.Nodes {
		for _, share := range s.Nodes[i].Pods {
			if share.Group() == g {
				count[s.Nodes[i].Zone] += share.Count()
			}
		}
	}
	count[zone] += here
	return count[zone]+1-min(count["us-east-1a"], count["us-east-1b"], count["us-east-1c"]) <= int(s.PodGroups[g].Spread[0].MaxSkew)
}

// nodeCount returns how many nodes the clusters are to have: CONSOLIDATE_NODES says so.
func nodeCount(t tester) int {
	t.Helper()
	nodes, err := strconv.Atoi(cmp.Or(os.Getenv("CONSOLIDATE_NODES"), "100"))
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// families returns those that are compared.
func families() []family {
	return []family{
		{name: "on-demand", fill: 0.5, karpenter: map[int]karpenter{100: {25.26, 934, true}, 500: {117.93, 4797, true}}},
		{name: "spot", fill: 0.5, spot: 1, karpenter: map[int]karpenter{100: {10.69, 148, true}, 500: {49.51, 1067, true}}},
		{name: "mixed", fill: 0.4, spot: 0.5, karpenter: map[int]karpenter{100: {12.53, 367, true}, 500: {60.28, 2709, true}}},
		{name: "guarded", fill: 0.5, guarded: 0.4, karpenter: map[int]karpenter{100: {32.07, 439, true}, 500: {172.09, 2188, true}}},
		{name: "held", fill: 0.5, held: 0.05, karpenter: map[int]karpenter{100: {27.38, 482, true}, 500: {142.34, 3228, true}}},
		{name: "spread", fill: 0.5, spread: 0.4, karpenter: map[int]karpenter{100: {26.60, 857, true}, 500: {119.97, 4553, true}}},
		{name: "apart", fill: 0.5, apart: 0.4, karpenter: map[int]karpenter{100: {24.23, 710, true}, 500: {120.69, 3840, true}}},
		{name: "local", fill: 0.5, local: 0.2, karpenter: map[int]karpenter{100: {19.54, 1051, true}, 500: {115.91, 5690, true}}},
		{name: "all", fill: 0.5, spot: 0.5, guarded: 0.2, held: 0.02, spread: 0.2, apart: 0.2, local: 0.1, karpenter: map[int]karpenter{100: {19.68, 207, true}, 500: {90.49, 1605, true}}},
	}
}
