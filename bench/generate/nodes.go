package generate

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// NodesName returns the name of the scenario of so many nodes.
func NodesName(nodes int) string { return fmt.Sprintf("own-consolidate-%d", nodes) }

// WriteNodes writes a scenario of nodes with pods to the directory, in which the catalog
// is, and returns its path.
func WriteNodes(dir string, nodes int, seed uint64) (string, error) {
	s, err := Nodes(nodes, seed)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, s.Name+".json.gz")
	return path, write(path, s)
}

// Nodes returns a scenario of nodes of 4 to 16 cpus, all on demand, whose room is used to
// between a quarter and three quarters by small pods of up to 300 workloads, 14 on each or so.
func Nodes(nodes int, seed uint64) (*scenario.Scenario, error) {
	catalog, err := Catalog()
	if err != nil {
		return nil, err
	}
	only := func(key, value string) scenario.Requirement {
		return scenario.Requirement{Key: key, Op: "In", Values: []string{value}}
	}
	s := &scenario.Scenario{
		Format: scenario.Format, Name: NodesName(nodes), Catalog: CatalogFile,
		NodePools: []scenario.NodePool{{Name: "default", Requirements: []scenario.Requirement{
			only("kubernetes.io/arch", "amd64"), only("karpenter.sh/capacity-type", "on-demand"), only("kubernetes.io/os", "linux"),
		}}},
	}
	var types []*scenario.InstanceType
	for i := range catalog {
		t := &catalog[i]
		t.Offerings = slices.DeleteFunc(t.Offerings, func(o scenario.Offering) bool { return o.CapacityType != "on-demand" || o.Unavailable })
		amd64 := slices.ContainsFunc(t.Reqs, func(q scenario.Requirement) bool {
			return q.Key == "kubernetes.io/arch" && slices.Equal(q.Values, []string{"amd64"})
		})
		if amd64 && t.CPU >= 4000 && t.CPU <= 16000 && len(t.Ext) == 0 && len(t.Offerings) > 0 {
			types = append(types, t)
		}
	}
	r := rand.New(rand.NewPCG(seed, 2))
	for g := range min(300, max(20, nodes/10)) {
		cpu := []int64{50, 100, 150, 250, 500, 1000}[r.IntN(6)]
		s.PodGroups = append(s.PodGroups, scenario.PodGroup{
			CPU: cpu, Mem: cpu * []int64{1, 2, 4, 6}[r.IntN(4)] * 1024 / 1000, Labels: map[string]string{"app": fmt.Sprintf("w%04d", g)},
		})
	}
	for i := range nodes {
		t := types[r.IntN(len(types))]
		o := t.Offerings[r.IntN(len(t.Offerings))]
		n := scenario.Node{Name: fmt.Sprintf("node-%05d", i), Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Pool: "default"}
		cpu, mem, pods := t.CPU-t.ReservedCPU, t.Mem-t.ReservedMem, t.Pods
		rest := int64(float64(cpu) * (0.25 + 0.5*r.Float64()))
		count := map[int]int{}
		for range 200 {
			if cpu <= rest {
				break
			}
			g := r.IntN(len(s.PodGroups))
			if p := &s.PodGroups[g]; p.CPU <= cpu && p.Mem <= mem && pods > 0 {
				count[g]++
				cpu, mem, pods = cpu-p.CPU, mem-p.Mem, pods-1
			}
		}
		for g := range s.PodGroups {
			if count[g] > 0 {
				n.Pods = append(n.Pods, scenario.Share{g, count[g]})
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}
