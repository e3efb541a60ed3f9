package kwok

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

func TestRepairPoliciesAreThoseOfKarpentersSuite(t *testing.T) {
	t.Parallel()
	rules, err := cloud.NewRepairRules((&Provider{}).RepairPolicies())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0).UTC()
	within := func(d time.Duration) cluster.Bound { return cluster.Bound{IsSet: true, Within: d} }
	for _, want := range []cluster.Ailment{
		{Condition: "Ready", Status: "False", Due: start.Add(10 * time.Minute), Bound: within(0)},
		{Condition: "Ready", Status: "Unknown", Due: start.Add(10 * time.Minute), Bound: within(0)},
		{Condition: "KWOKUnhealthy", Status: "True", Reason: "E2ETest", Due: start.Add(30 * time.Second), Bound: within(45 * time.Second)},
		{Condition: "KWOKRebootRequired", Status: "True", Reason: "E2ETest", Due: start.Add(30 * time.Second), Bound: within(time.Minute), Reboot: true},
	} {
		c := lifecycle.NodeCondition{Type: want.Condition, Status: want.Status, Reason: want.Reason, Since: start}
		if diff := cmp.Diff([]cluster.Ailment{want}, rules.Ailments([]lifecycle.NodeCondition{c}, start)); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", want.Condition, diff)
		}
	}
}
