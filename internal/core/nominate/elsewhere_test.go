package nominate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// TestPlanningForOtherNodesIsBounded lives through ten hours of a cluster in which
// kube-scheduler refuses every pod, whatever its target node, and through as many in
// which it is down: that costs few nodes, or none.
func TestPlanningForOtherNodesIsBounded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		down := seed%2 == 1
		pods := make([]Stuck, 1+random.IntN(500))
		for i := range pods {
			pods[i] = Stuck{PodRef: cluster.PodRef{Name: fmt.Sprintf("p%03d", i)}, Since: noon, TriedAt: noon.Add(-time.Minute)}
		}
		nodes, tried := 0, map[string]bool{}
		for at := noon; at.Before(noon.Add(10 * time.Hour)); at = at.Add(time.Duration(1+random.IntN(20)) * time.Second) {
			if i := random.IntN(len(pods)); !down {
				pods[i].TriedAt = at
			}
			for _, ref := range Elsewhere(at, pods, len(tried)) {
				var i int
				if _, err := fmt.Sscanf(ref.Name, "p%d", &i); err != nil {
					t.Fatal(err)
				}
				pods[i].Times, pods[i].Since, tried[ref.Name] = pods[i].Times+1, at, true
				nodes++
			}
		}
		if down && nodes > 0 {
			t.Errorf("seed %d: kube-scheduler is down and %d pods were planned for another node", seed, nodes)
		}
		if nodes > elsewhereAtOnce*elsewhereMost {
			t.Errorf("seed %d: %d pods cost %d nodes", seed, len(pods), nodes)
		}
		if !down && nodes == 0 && len(pods) < 100 {
			t.Errorf("seed %d: none of %d pods was planned for another node", seed, len(pods))
		}
	}
}
