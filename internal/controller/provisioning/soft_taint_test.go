package provisioning

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestPodsAreMeantForNodesThatStay: the provisioner leaves nodes alone that go later,
// unless that costs a node, and the room of replacements to their steps in any case.
func TestPodsAreMeantForNodesThatStay(t *testing.T) {
	t.Parallel()
	const pool = "type four cpu=4 memory=8Gi price=0.20\npool general\n"
	for name, c := range map[string]struct {
		cluster  string
		node     string // empty: none that is there
		launches int
	}{
		"another has room": {
			"node a pool=general type=four soft-taint\nnode b pool=general type=four\nrunning web on=b cpu=1\npod next cpu=1\n", "b", 0,
		},
		"none but the one that goes later has room": {
			"node a pool=general type=four soft-taint\nnode b pool=general type=four\nrunning web on=b cpu=4\npod next cpu=1\n", "a", 0,
		},
		"another than the one that Cluster Autoscaler may delete has room": {
			"node a deletion-candidate cpu=4 memory=8Gi\nnode b pool=general type=four\nrunning web on=b cpu=1\npod next cpu=1\n", "b", 0,
		},
		"none but the one that Cluster Autoscaler may delete has room": {
			"node a deletion-candidate cpu=4 memory=8Gi\nnode b pool=general type=four\nrunning web on=b cpu=4\npod next cpu=1\n", "a", 0,
		},
		"a replacement has room, until the pods come that it was bought for": {
			"node old pool=general type=four reason=Drifted disrupted since=1m command=s:1:1 drifted=NodePoolDrifted\nrunning web on=old cpu=3\n" +
				"node new pool=general type=four empty replaces=s\npod next cpu=2\n", "", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap, err := story.Parse(pool + c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			l := &Loop{Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return snap.At }}
			_, p, _, err := l.decideSparing(snap)
			if err != nil {
				t.Fatal(err)
			}
			node := ""
			if len(p.Assignments) > 0 {
				node = p.Assignments[0].Node
			}
			if node != c.node || len(p.Launches) != c.launches {
				t.Errorf("the pod is meant for %q, with %d launches, want %q and %d", node, len(p.Launches), c.node, c.launches)
			}
		})
	}
}
