package journal

import (
	"maps"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestNodePrices: whatever changes from snapshot to snapshot, nodes cost what the snapshot says.
func TestNodePrices(t *testing.T) {
	t.Parallel()
	f := newFleet(50)
	var x nodePrices
	check := func(what string, s *cluster.Snapshot) {
		t.Helper()
		got, prices := x.of(s), cluster.NewPrices(s)
		for i := range s.Nodes {
			dollars, known := prices.Of(&s.Nodes[i])
			if got[i].dollars != dollars || got[i].known != known {
				t.Errorf("%s: node %d costs %v, %v, want %v, %v", what, i, got[i].dollars, got[i].known, dollars, known)
			}
		}
	}
	relabel := func(n *cluster.Node, key, value string) {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[key] = value
	}
	types := f.snap.Pools[0].Types
	for i := range f.snap.Nodes {
		o := &types[i].Offerings[0]
		for _, l := range [][2]string{{label.InstanceType, types[i].Name}, {label.Zone, o.Zone}, {label.CapacityType, o.CapacityType}} {
			relabel(&f.snap.Nodes[i], l[0], l[1])
		}
	}
	s := f.next().Snapshot
	if dollars, known := cluster.NewPrices(s).Of(&s.Nodes[0]); !known || dollars == 0 {
		t.Fatal("the first node has no price")
	}
	check("at first", s)
	check("pods have changed", f.next().Snapshot)
	for _, step := range []struct {
		what string
		does func(s *cluster.Snapshot)
	}{
		{"a node has another instance type", func(s *cluster.Snapshot) { s.Nodes[3].Labels = s.Nodes[30].Labels }},
		{"a node is on demand", func(s *cluster.Snapshot) { relabel(&s.Nodes[4], label.CapacityType, label.OnDemand) }},
		{"nobody's node", func(s *cluster.Snapshot) { s.Nodes[5].Pool = "" }},
		{"a node is gone", func(s *cluster.Snapshot) { s.Nodes = slices.Delete(s.Nodes, 7, 8) }},
		{"a node has come", func(s *cluster.Snapshot) {
			n := s.Nodes[0]
			s.Nodes = slices.Insert(s.Nodes, 2, n)
		}},
		{"prices have changed", func(s *cluster.Snapshot) {
			dear := slices.Clone(s.Pools[0].Types)
			for i, t := range dear {
				dearer := *t
				dearer.Offerings = slices.Clone(t.Offerings)
				for k := range dearer.Offerings {
					dearer.Offerings[k].PriceHourly *= 2
				}
				dear[i] = &dearer
			}
			s.Pools[0].Types = dear
		}},
		{"a NodePool is gone", func(s *cluster.Snapshot) { s.Pools = nil }},
		{"it is back", func(s *cluster.Snapshot) {
			s.Pools = []cluster.Pool{{Name: "general", Types: []*catalog.Type{types[0]}}}
		}},
	} {
		next := *s
		next.Nodes, next.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pools)
		step.does(&next)
		s = &next
		check(step.what, s)
		check(step.what+", again", s)
	}
}
