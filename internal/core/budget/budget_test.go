package budget_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

func TestLeft(t *testing.T) {
	t.Parallel()
	node := func(change func(*cluster.Node)) cluster.Node {
		n := cluster.Node{Pool: "p", Claim: "c", Initialized: true, Ready: true}
		change(&n)
		return n
	}
	healthy := func(n int) (nodes []cluster.Node) {
		for range n {
			nodes = append(nodes, node(func(*cluster.Node) {}))
		}
		return nodes
	}
	for name, tc := range map[string]struct {
		budgets   []cluster.Budget
		nodes     []cluster.Node
		want      int // for Empty
		unhealthy int // for Unhealthy
	}{
		"a percentage is rounded up":                  {[]cluster.Budget{{Nodes: 10, Percent: true, Active: true}}, healthy(11), 2, 2},
		"of no nodes nothing is allowed":              {[]cluster.Budget{{Nodes: 10, Percent: true, Active: true}}, nil, 0, 0},
		"the least of several counts":                 {[]cluster.Budget{{Nodes: 50, Percent: true, Active: true}, {Nodes: 1, Active: true}}, healthy(10), 1, 1},
		"one that is closed does not count":           {[]cluster.Budget{{Nodes: 0}, {Nodes: 3, Active: true}}, healthy(10), 3, 3},
		"one for another reason does not count":       {[]cluster.Budget{{Nodes: 0, Active: true, Reasons: []string{"Drifted"}}, {Nodes: 3, Active: true}}, healthy(10), 3, 3},
		"one for the reason counts":                   {[]cluster.Budget{{Nodes: 0, Active: true, Reasons: []string{"Empty"}}, {Nodes: 3, Active: true}}, healthy(10), 0, 3},
		"a node that leaves uses it up":               {[]cluster.Budget{{Nodes: 2, Active: true}}, append(healthy(3), node(func(n *cluster.Node) { n.Deleting = true })), 1, 1},
		"a node that is marked uses it up":            {[]cluster.Budget{{Nodes: 2, Active: true}}, append(healthy(3), node(func(n *cluster.Node) { n.DisruptionReason = "Empty" })), 1, 1},
		"a node that is not ready uses it up":         {[]cluster.Budget{{Nodes: 2, Active: true}}, append(healthy(3), node(func(n *cluster.Node) { n.Ready = false })), 1, 2},
		"less than nothing is nothing":                {[]cluster.Budget{{Nodes: 0, Active: true}}, append(healthy(3), node(func(n *cluster.Node) { n.Ready = false })), 0, 0},
		"nodes that are not initialized do not count": {[]cluster.Budget{{Nodes: 50, Percent: true, Active: true}}, append(healthy(2), node(func(n *cluster.Node) { n.Initialized = false })), 1, 1},
		"nodes whose instance ends do not count":      {[]cluster.Budget{{Nodes: 50, Percent: true, Active: true}}, append(healthy(2), node(func(n *cluster.Node) { n.Deleting, n.Ending = true, true })), 1, 1},
		"nodes of other pools do not count":           {[]cluster.Budget{{Nodes: 50, Percent: true, Active: true}}, append(healthy(2), node(func(n *cluster.Node) { n.Pool = "q" })), 1, 1},
		"a node that reboots counts, and uses it up":  {[]cluster.Budget{{Nodes: 50, Percent: true, Active: true}}, append(healthy(2), node(func(n *cluster.Node) { n.Initialized, n.Rebooting = false, true })), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap := &cluster.Snapshot{Nodes: tc.nodes, Pools: []cluster.Pool{{Name: "p", Budgets: tc.budgets}}}
			if got := budget.Open(snap).Left("p", "Empty"); got != tc.want {
				t.Errorf("left %d, want %d", got, tc.want)
			}
			if got := budget.Open(snap).Left("p", "Unhealthy"); got != tc.unhealthy {
				t.Errorf("left %d for repair, want %d", got, tc.unhealthy)
			}
		})
	}
}

func TestTheLedgerIsKept(t *testing.T) {
	t.Parallel()
	n := cluster.Node{Pool: "p", Claim: "c", Initialized: true, Ready: true}
	unwell := n
	unwell.Ready = false
	b := budget.Open(&cluster.Snapshot{
		Nodes: []cluster.Node{n, n, n, unwell},
		Pools: []cluster.Pool{{Name: "p", Budgets: []cluster.Budget{{Nodes: 2, Active: true}}}},
	})
	if got := b.Left("p", "Empty"); got != 1 {
		t.Errorf("left %d at first, want 1", got)
	}
	b.Take("p", "Empty", 2)
	if got := b.Left("p", "Empty"); got != 0 {
		t.Errorf("left %d after two, want 0", got)
	}
	if b.Overdrawn("p", "Empty") {
		t.Error("overdrawn by a node that is not well")
	}
	b.Take("p", "Drifted", 1)
	if b.Overdrawn("p", "Empty") {
		t.Error("overdrawn by a node that goes for another reason")
	}
	b.Take("p", "Empty", 1)
	if !b.Overdrawn("p", "Empty") {
		t.Error("not overdrawn by a third of two")
	}
	b.Return("p", "Empty")
	if b.Overdrawn("p", "Empty") {
		t.Error("overdrawn by a node that stays after all")
	}
	if got := b.Left("gone", "Empty"); got != 0 {
		t.Errorf("a pool that is not there allows %d", got)
	}
}
