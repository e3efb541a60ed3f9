package cover

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// readProblem reads a public scenario as a Problem: pods of nodes count as pending, so that the
// question is what all pods would cost on fresh bins. Spread and affinity are left out.
func readProblem(tb testing.TB, path string) *Problem {
	tb.Helper()
	s, err := scenario.Read(path)
	if err != nil {
		tb.Skipf("no scenario: %v", err)
	}
	ext := map[string]bool{}
	for _, g := range s.PodGroups {
		for name := range g.Ext {
			ext[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(ext))
	p := &Problem{Dims: 3 + len(names)}
	var daemonCPU, daemonMem int64
	for _, d := range s.DaemonSets {
		daemonCPU += d.CPU
		daemonMem += d.Mem
	}
	var labels []map[string][]string
	for _, it := range s.InstanceTypes {
		capacity := []int64{it.CPU - it.ReservedCPU - daemonCPU, it.Mem - it.ReservedMem - daemonMem, it.Pods - int64(len(s.DaemonSets))}
		for _, n := range names {
			capacity = append(capacity, it.Ext[n])
		}
		if slices.Min(capacity) < 0 {
			continue
		}
		for _, pool := range s.NodePools {
			for _, o := range it.Offerings {
				l := map[string][]string{"topology.kubernetes.io/zone": {o.Zone}, "karpenter.sh/capacity-type": {o.CapacityType}}
				for _, r := range it.Reqs {
					if r.Op == "In" {
						l[r.Key] = r.Values
					}
				}
				if !o.Unavailable && allows(pool.Requirements, l) {
					p.Bins = append(p.Bins, Bin{Capacity: capacity, Price: o.Price})
					labels = append(labels, l)
				}
			}
		}
	}
	bound := make([]int, len(s.PodGroups))
	for _, n := range s.Nodes {
		for _, share := range n.Pods {
			bound[share.Group()] += share.Count()
		}
	}
	for i, g := range s.PodGroups {
		size := []int64{g.CPU, g.Mem, 1}
		for _, n := range names {
			size = append(size, g.Ext[n])
		}
		set := newBitset(len(p.Bins))
		for b, l := range labels {
			fits := true
			for k, v := range g.NodeSelector {
				fits = fits && slices.Contains(l[k], v)
			}
			if fits {
				set.set(b)
			}
		}
		p.Classes = append(p.Classes, Class{Size: size, Count: g.N + bound[i], Bins: set})
	}
	return p
}

func allows(requirements []scenario.Requirement, labels map[string][]string) bool {
	for _, r := range requirements {
		has := slices.ContainsFunc(labels[r.Key], func(v string) bool { return slices.Contains(r.Values, v) })
		switch {
		case r.Op == "In" && !has, r.Op == "NotIn" && has:
			return false
		}
	}
	return true
}

// scenarios are the public ones with plain pods, which lie beside the repository; none if
// they do not.
func scenarios(tb testing.TB) []string {
	tb.Helper()
	var paths []string
	for _, pattern := range []string{"p1b-*", "p1c-*", "p2-*", "p3-*"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "scenarios", pattern+".json.gz"))
		if err != nil {
			tb.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}
