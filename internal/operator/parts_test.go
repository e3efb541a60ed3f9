package operator

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestBudgetSchedule reads when the budget of a NodePool closes and opens.
func TestBudgetSchedule(t *testing.T) {
	t.Parallel()
	np := &karpenterv1.NodePool{}
	np.Name = "night"
	schedule := "0 2 * * *"
	np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "0", Schedule: &schedule, Duration: &karpenterv1.Duration{Duration: time.Hour}}}
	v := &viewed{client: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(np).Build()}
	if v.BudgetSchedule("day") != nil {
		t.Error("a NodePool that is not there has a schedule")
	}
	at := time.Date(2026, 11, 26, 1, 0, 0, 0, time.UTC)
	for _, want := range []struct {
		active bool
		next   time.Duration
	}{{false, time.Hour}, {true, time.Hour}, {false, 23 * time.Hour}} {
		budgets, next := v.BudgetSchedule("night")(at)
		if len(budgets) != 1 || budgets[0].Active != want.active || next.Sub(at) != want.next {
			t.Errorf("at %s: %+v until %s", at, budgets, next)
		}
		at = next
	}
}
