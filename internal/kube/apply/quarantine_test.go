package apply

import (
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// TestLoopsShareTheQuarantine: one learns and divides while another leaves the pods out. The race
// detector judges as well.
func TestLoopsShareTheQuarantine(t *testing.T) {
	t.Parallel()
	var q Quarantine
	pod := cluster.Pod{PodRef: cluster.PodRef{Namespace: "a", Name: "heavy"}, Constraints: &cluster.Constraints{}}
	snap := &cluster.Snapshot{At: time.Unix(0, 0), Pending: []cluster.Pod{pod}}
	p := &plan.Plan{Refusals: []plan.Refusal{{Pod: pod.PodRef, Why: verdict.Of(verdict.TooMuchEffort, "", "why")}}}
	var loops sync.WaitGroup
	loops.Go(func() {
		for range 100 {
			q.Divide(snap)
			q.Learn(snap, p)
		}
	})
	loops.Go(func() {
		for range 100 {
			q.Without(snap)
		}
	})
	loops.Wait()
	if left := q.Without(snap).Pending; len(left) != 0 {
		t.Errorf("%d pods are left of one that another loop has quarantined", len(left))
	}
}
