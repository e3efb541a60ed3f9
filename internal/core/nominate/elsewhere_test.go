package nominate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

func TestWhoIsTriedElsewhere(t *testing.T) {
	t.Parallel()
	open := ago(time.Minute)
	for name, c := range map[string]struct {
		pod     Stuck
		already int
		want    bool
	}{
		"refused where it was meant to be":                      {Stuck{Since: open, TriedAt: ago(time.Second)}, 0, true},
		"refused, but the node has only just opened":            {Stuck{Since: ago(29 * time.Second), TriedAt: ago(time.Second)}, 0, false},
		"refused, but kube-scheduler may not have seen it open": {Stuck{Since: open, TriedAt: open.Add(elsewhereSettled)}, 0, false},
		"not tried since the node opened":                       {Stuck{Since: open, TriedAt: ago(time.Hour)}, 0, false},
		"never tried":                                           {Stuck{Since: open}, 0, false},
		"refused a second time, waits longer":                   {Stuck{Since: ago(59 * time.Second), TriedAt: noon, Times: 1}, 1, false},
		"refused a second time":                                 {Stuck{Since: open, TriedAt: noon, Times: 1}, 1, true},
		"refused too often: it stays":                           {Stuck{Since: ago(time.Hour), TriedAt: noon, Times: elsewhereMost}, 1, false},
		"many are tried elsewhere already":                      {Stuck{Since: open, TriedAt: noon}, elsewhereAtOnce, false},
		"it is one of the many":                                 {Stuck{Since: open, TriedAt: noon, Times: 1}, elsewhereAtOnce, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.pod.Name = "p"
			var want []cluster.PodRef
			if c.want {
				want = []cluster.PodRef{c.pod.PodRef}
			}
			if diff := cmp.Diff(want, Elsewhere(noon, []Stuck{c.pod}, c.already)); diff != "" {
				t.Errorf("Elsewhere (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTryingElsewhereIsBounded lives through ten hours of a cluster in which
// kube-scheduler refuses every pod, wherever it is meant to be, and through as many in
// which it is down: that costs few nodes, or none.
func TestTryingElsewhereIsBounded(t *testing.T) {
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
			t.Errorf("seed %d: kube-scheduler is down and %d pods were tried elsewhere", seed, nodes)
		}
		if nodes > elsewhereAtOnce*elsewhereMost {
			t.Errorf("seed %d: %d pods cost %d nodes", seed, len(pods), nodes)
		}
		if !down && nodes == 0 && len(pods) < 100 {
			t.Errorf("seed %d: none of %d pods was tried elsewhere", seed, len(pods))
		}
	}
}
