package generate

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// A cluster of which drift has recreated all nodes: many pools, and in each many small nodes
// where a few larger ones would do, because drift replaced them a few at a time. Karpenter's
// single-node consolidation does not get to the end of such a cluster before its time is up
// (kubernetes-sigs/karpenter#3305).
const (
	recreatedPools = 20
	// Of each pool.
	recreatedNodes, recreatedGroups = 15, 12
)

// RecreatedName is the scenario's name.
const RecreatedName = "own-recreated-300"

// WriteRecreated writes the scenario to the directory, in which the catalog is, and returns its path.
func WriteRecreated(dir string, seed uint64) (string, error) {
	s, err := Recreated(seed)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, s.Name+".json.gz")
	return path, write(path, s)
}

// Recreated returns the cluster. Its nodes have 2 cpus, at most two thirds of which are used, and
// the pods of a pool run in that pool alone. A third of the workloads prefer to spread over zones,
// and another third avoid nodes that have a pod of theirs.
func Recreated(seed uint64) (*scenario.Scenario, error) {
	catalog, err := Catalog()
	if err != nil {
		return nil, err
	}
	s := &scenario.Scenario{Format: scenario.Format, Name: RecreatedName, Catalog: CatalogFile}
	d := recreated{rand.New(rand.NewPCG(seed, 20)), s} //nolint:gosec // it must be the same each time
	zones := []string{"use1-az2", "use1-az4", "use1-az6"}
	for p := range recreatedPools {
		arch := []string{"amd64", "arm64"}[p%2]
		pool := scenario.NodePool{Name: fmt.Sprintf("team-%02d", p)}
		require := func(key string, values ...string) {
			pool.Requirements = append(pool.Requirements, scenario.Requirement{Key: key, Op: "In", Values: values})
		}
		require("kubernetes.io/os", "linux")
		require("kubernetes.io/arch", arch)
		require(label.CapacityType, label.OnDemand)
		require(label.Zone, zones...)
		require(instance+"category", "c", "m", "r")
		require(instance+"generation", "6", "7")
		s.NodePools = append(s.NodePools, pool)
		first := len(s.PodGroups)
		for range recreatedGroups {
			d.addGroup(pool.Name)
		}
		types := []string{"c6i.large", "m6i.large", "r6i.large"}
		if arch == "arm64" {
			types = []string{"c6g.large", "m6g.large", "r6g.large"}
		}
		for i := range recreatedNodes {
			name := types[d.IntN(len(types))]
			at := slices.IndexFunc(catalog, func(t scenario.InstanceType) bool { return t.Name == name })
			if at < 0 {
				return nil, fmt.Errorf("the catalog has no %s", name)
			}
			n := scenario.Node{Name: fmt.Sprintf("%s-%02d", pool.Name, i), Type: name, Zone: zones[i%3], CapacityType: label.OnDemand, Pool: pool.Name}
			d.fill(&n, &catalog[at], first)
			s.Nodes = append(s.Nodes, n)
		}
	}
	return s, nil
}

// recreated draws workloads, and the pods on nodes.
type recreated struct {
	*rand.Rand
	scenario *scenario.Scenario
}

func (d *recreated) addGroup(pool string) {
	cpu := []int64{100, 150, 250, 400}[d.IntN(4)]
	g := scenario.PodGroup{
		Name: fmt.Sprintf("app-%03d", len(d.scenario.PodGroups)), CPU: cpu, Mem: cpu * []int64{1, 2, 4}[d.IntN(3)],
		NodeSelector: map[string]string{label.NodePool: pool},
	}
	g.Labels = map[string]string{"app": g.Name}
	switch len(d.scenario.PodGroups) % 3 {
	case 0:
		g.Spread = []scenario.Spread{{Key: label.Zone, MaxSkew: 1, MatchLabels: g.Labels, Soft: true}}
	case 1:
		g.AntiAffinity = []scenario.Term{{Key: label.Hostname, MatchLabels: g.Labels}}
	}
	d.scenario.PodGroups = append(d.scenario.PodGroups, g)
}

// fill puts pods of the groups from first on onto a node.
func (d *recreated) fill(n *scenario.Node, t *scenario.InstanceType, first int) {
	cpu, mem := t.CPU-t.ReservedCPU, t.Mem-t.ReservedMem
	rest := cpu / 3
	count := map[int]int{}
	for range 50 {
		g := first + d.IntN(recreatedGroups)
		p := &d.scenario.PodGroups[g]
		if cpu-p.CPU < rest || p.Mem > mem || len(p.AntiAffinity) > 0 && count[g] > 0 {
			continue
		}
		count[g]++
		cpu, mem = cpu-p.CPU, mem-p.Mem
	}
	for g := first; g < first+recreatedGroups; g++ {
		if count[g] > 0 {
			n.Pods = append(n.Pods, scenario.Share{g, count[g]})
		}
	}
}
