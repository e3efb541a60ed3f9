package provisioning

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

func TestPendingPodsAreCountedByTheZoneTheyCanBeIn(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	l := &Loop{Metrics: observe.NewMetrics(reg)}
	snap := &cluster.Snapshot{Pools: []cluster.Pool{{Types: []*catalog.Type{
		{Requirements: label.Requirements{label.Zone: label.In("a", "b")}}, {Requirements: label.Requirements{label.Zone: label.In("b", "c")}},
	}}}}
	pods := func(n int, zones ...label.Requirement) {
		c := &cluster.Constraints{}
		for _, z := range zones {
			c.Terms = append(c.Terms, label.Requirements{label.Zone: z})
		}
		if len(zones) == 0 {
			c.Terms = []label.Requirements{{}}
		}
		for range n {
			snap.Pending = append(snap.Pending, cluster.Pod{Constraints: c})
		}
	}
	pods(1)                                                // anywhere
	pods(2, label.In("a", "b"))                            // one of two
	pods(3, label.In("a"), label.In("c"))                  // either
	pods(4, label.In("a"))                                 // one
	pods(5, label.In("a", "x"))                            // one that is offered
	pods(6, label.NotIn("a", "b"))                         // what is left
	pods(7, label.In("x"))                                 // none
	pods(8, label.In("b"), label.In("b").WithMinValues(1)) // the same twice
	l.reportZones(snap)
	want := map[string]float64{"flexible": 6, "a": 9, "b": 8, "c": 6, "none": 7}
	if diff := cmp.Diff(want, zonesShown(t, reg)); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
	snap.Pending = snap.Pending[:1]
	l.reportZones(snap)
	if diff := cmp.Diff(map[string]float64{"flexible": 1}, zonesShown(t, reg)); diff != "" {
		t.Errorf("zones of the next decision (-want +got):\n%s", diff)
	}
}

func zonesShown(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "karpenter_scheduler_pending_pods_by_effective_zone_count" {
				got[m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}
