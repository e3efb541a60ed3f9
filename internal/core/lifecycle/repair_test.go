package lifecycle_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

func TestRepairIsSlowSureAndBounded(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0).UTC()
	policies := []lifecycle.RepairPolicy{
		{Type: "Ready", Status: "False", Toleration: 10 * time.Minute},
		{Type: "Ready", Status: "Unknown", Toleration: 10 * time.Minute},
		{Type: "DiskBroken", Status: "True", Toleration: time.Minute},
	}
	is := func(conditionType, status string) lifecycle.NodeCondition {
		return lifecycle.NodeCondition{Type: conditionType, Status: status, Since: start}
	}
	count := func(sick, nodes int) []lifecycle.UnhealthyCount {
		return []lifecycle.UnhealthyCount{{Name: "pool general", Nodes: nodes, Sick: sick}, {Name: "the cluster", Nodes: 100, Sick: sick}}
	}
	for name, c := range map[string]struct {
		conditions      []lifecycle.NodeCondition
		unhealthyCounts []lifecycle.UnhealthyCount
		at              time.Duration
		deleting        bool
		deadline        time.Duration // 0: none
		static          string
		want            string
	}{
		"a node that is well needs nothing": {
			conditions: []lifecycle.NodeCondition{is("Ready", "True"), is("DiskBroken", "False")}, at: time.Hour, want: "settled",
		},
		"a condition that no policy knows is nobody's business": {
			conditions: []lifecycle.NodeCondition{is("Tired", "True")}, at: time.Hour, want: "settled",
		},
		"a sick node gets its time": {
			conditions: []lifecycle.NodeCondition{is("Ready", "Unknown")}, at: 599 * time.Second,
			want: "wait: condition Ready is Unknown, which is tolerated until 1970-01-01T00:10:00Z",
		},
		"then it goes": {
			conditions: []lifecycle.NodeCondition{is("Ready", "Unknown")}, at: 600 * time.Second, want: "set deadline",
		},
		"of two ailments the one that is due first counts": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False"), is("DiskBroken", "True")}, at: time.Minute, want: "set deadline",
		},
		"its pods end at once, though its claim is going already": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, deleting: true, want: "set deadline",
		},
		"whatever grace there was": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, deleting: true, deadline: 2 * time.Hour, want: "set deadline",
		},
		"a deadline that is over is left as it is": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, deleting: true, deadline: 30 * time.Minute, want: "settled",
		},
		"with its deadline set it goes": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, deadline: time.Hour, want: "delete claim unhealthy",
		},
		"a claim that is going keeps its deadline though the node is well again": {
			conditions: []lifecycle.NodeCondition{is("Ready", "True")}, at: time.Hour, deleting: true, deadline: 30 * time.Minute, want: "settled",
		},
		"a claim that lives does not, for it would end the pods of a later drain": {
			conditions: []lifecycle.NodeCondition{is("Ready", "True")}, at: time.Hour, deadline: 30 * time.Minute, want: "clear deadline",
		},
		"a deadline to come is not repair's": {
			conditions: []lifecycle.NodeCondition{is("Ready", "True")}, at: time.Hour, deadline: 2 * time.Hour, want: "settled",
		},
		"a node of a static pool stays, for nothing would replace it": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, static: "fixed",
			want: "blocked by repair of pool fixed since 1970-01-01T00:10:00Z: it has a fixed number of nodes, and nothing would replace this one\n" +
				"wait: pool fixed: it has a fixed number of nodes, and nothing would replace this one",
		},
		"but one that is going ends": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, static: "fixed", deleting: true, want: "set deadline",
		},
		"one in five may be sick, rounded up": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, unhealthyCounts: count(3, 11), want: "set deadline",
		},
		"more are an outage, which new nodes would only make worse": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour, unhealthyCounts: count(4, 11),
			want: "blocked by repair of pool general since 1970-01-01T00:10:00Z: 4 of 11 nodes are sick, more than a fifth\n" +
				"wait: pool general: 4 of 11 nodes are sick, more than a fifth",
		},
		"so are many small pools that are sick at once": {
			conditions: []lifecycle.NodeCondition{is("Ready", "False")}, at: time.Hour,
			unhealthyCounts: []lifecycle.UnhealthyCount{{Name: "pool small", Nodes: 1, Sick: 1}, {Name: "the cluster", Nodes: 10, Sick: 3}},
			want: "blocked by repair of the cluster since 1970-01-01T00:10:00Z: 3 of 10 nodes are sick, more than a fifth\n" +
				"wait: the cluster: 3 of 10 nodes are sick, more than a fifth",
		},
	} {
		v := lifecycle.RepairView{At: start.Add(c.at), Conditions: c.conditions, Policies: policies, UnhealthyCounts: c.unhealthyCounts, IsDeleting: c.deleting, Static: c.static}
		if c.deadline != 0 {
			v.Deadline = start.Add(c.deadline)
		}
		step := lifecycle.Repair(v)
		if got := step.String(); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
		if step.Why != "" && c.static == "" && !step.Until.After(v.At) {
			t.Errorf("%s: waits until %s, which is over", name, step.Until)
		}
	}
}
