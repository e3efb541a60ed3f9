package cover

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// readProblem reads a public scenario as a Problem: pods of nodes count as pending, so that the
// question is what all pods would cost on empty bins. Affinity is left out.
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
				l := map[string][]string{zoneKey: {o.Zone}, "karpenter.sh/capacity-type": {o.CapacityType}}
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
	zones := map[string]bool{}
	for _, l := range labels {
		zones[l[zoneKey][0]] = true
	}
	var first []int // the first class of each group, and where the last one ends
	for i, g := range s.PodGroups {
		first = append(first, len(p.Classes))
		size := []int64{g.CPU, g.Mem, 1}
		for _, n := range names {
			size = append(size, g.Ext[n])
		}
		// Pods that must spread are split over the zones beforehand, as evenly as can be.
		in := []string{""}
		for _, sp := range g.Spread {
			if sp.Key == zoneKey && !sp.Soft {
				in = slices.Sorted(maps.Keys(zones))
			}
		}
		for z, zone := range in {
			c := Class{Size: size, Count: (g.N + bound[i] + len(in) - 1 - z) / len(in), PerBin: perHost(g), Bins: newBitset(len(p.Bins))}
			for b, l := range labels {
				fits := zone == "" || l[zoneKey][0] == zone
				for k, v := range g.NodeSelector {
					fits = fits && slices.Contains(l[k], v)
				}
				if fits {
					bitset(c.Bins).set(b)
				}
			}
			p.Classes = append(p.Classes, c)
		}
	}
	first = append(first, len(p.Classes))
	for i, g := range s.PodGroups {
		for j, o := range s.PodGroups {
			if i != j && avoids(g, o) {
				for c := first[i]; c < first[i+1]; c++ {
					for d := first[j]; d < first[j+1]; d++ {
						p.Classes[c].Conflicts = append(p.Classes[c].Conflicts, int32(d))
					}
				}
			}
		}
	}
	return p
}

const (
	zoneKey = "topology.kubernetes.io/zone"
	hostKey = "kubernetes.io/hostname"
)

// perHost returns how many pods of the group may share a node; 0 if it does not matter.
func perHost(g scenario.PodGroup) int {
	for _, sp := range g.Spread {
		if sp.Key == hostKey && !sp.Soft {
			return int(sp.MaxSkew)
		}
	}
	if avoids(g, g) {
		return 1
	}
	return 0
}

// avoids reports whether pods of the group keep away from nodes with pods of the other.
func avoids(g, o scenario.PodGroup) bool {
	for _, t := range g.AntiAffinity {
		all := t.Key == hostKey
		for k, v := range t.MatchLabels {
			all = all && o.Labels[k] == v
		}
		if all {
			return true
		}
	}
	return false
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

// scenarios are the public ones with plain pods, which lie beside the repository, and
// those of a directory named in the environment; none where there are none.
func scenarios(tb testing.TB) []string {
	tb.Helper()
	var paths []string
	public := filepath.Join("..", "..", "..", "..", "shared", "scenarios")
	for _, pattern := range []string{
		filepath.Join(public, "p1b-*.gz"), filepath.Join(public, "p1c-*.gz"), filepath.Join(public, "p2-*.gz"), filepath.Join(public, "p3-*.gz"),
		filepath.Join(os.Getenv("COVER_SCENARIOS"), "own-*.gz"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			tb.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}
