package journal

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestEveryPodAndNodeIsExplained asks about every pending pod, and every node by its name and its NodeClaim's, in 500
// random clusters after a decision of each loop. Of pods that run the API server knows the answer (SetLive).
func TestEveryPodAndNodeIsExplained(t *testing.T) {
	t.Parallel()
	const scenarios = 500
	drawn := rapid.Custom(story.Any)
	pods, nodes := 0, 0
	for seed := range scenarios {
		text := drawn.Example(seed)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		first := &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Decide(snap, pack.Options{})}
		second := &record.Decision{Loop: record.Disruption, Snapshot: snap}
		second.Disruption, _ = disrupt.Propose(snap, disrupt.Memory{}, disrupt.Options{})
		j, _ := keep(t, Options{}, first, second)
		for i := range snap.Pending {
			p := &snap.Pending[i]
			pods++
			if a := j.Explain(Subject{KindPod, p.Namespace, p.Name}); len(a) != 1 || len(a[0].Says) == 0 {
				t.Errorf("seed %d: of pod %s it is said %+v\n%s", seed, p.PodRef, a, text)
			}
		}
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			nodes++
			if a := j.Explain(Subject{Kind: KindNode, Name: n.Name}); len(a) != 1 || len(a[0].Facts) == 0 {
				t.Errorf("seed %d: of node %s it is said %+v\n%s", seed, n.Name, a, text)
			}
			if n.Claim == "" {
				continue
			}
			if a := j.Explain(Subject{Kind: KindClaim, Name: n.Claim}); len(a) != 1 || len(a[0].Facts) == 0 {
				t.Errorf("seed %d: of NodeClaim %s it is said %+v\n%s", seed, n.Claim, a, text)
			}
		}
	}
	t.Logf("%d scenarios: %d pending pods and %d nodes have an answer", scenarios, pods, nodes)
}
