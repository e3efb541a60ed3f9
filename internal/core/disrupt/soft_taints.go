package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// softTaints decides which nodes get and lose the soft taint, which asks kube-scheduler to prefer
// other nodes.
type softTaints struct {
	work *work
	// waits are the nodes, by index, that keep the taint if they have it: they are waiting to be
	// replaced, or are not needed yet.
	waits []bool
}

// wait taints a node that is going to be replaced later: pods that are evicted before would only be
// evicted again there. why is what it waits for; a node that may not be disrupted gets no taint. A
// node for which no replacement was found keeps what it has, so that the taint does not come and go
// with each try.
func (t *softTaints) wait(i int, reason string, why verdict.Verdict) {
	n := &t.work.snap.Nodes[i]
	_, cooling := t.work.scope.coolingDown[n.Name]
	t.waits[i] = why.Reason != verdict.NodeBlocked && t.work.ledger.Allowed(n.Pool, reason) > 0
	if t.waits[i] && !cooling && why.Reason != verdict.NoReplacement {
		t.add(i)
	}
}

// add taints a node.
func (t *softTaints) add(i int) {
	if n := &t.work.snap.Nodes[i]; !n.SoftTaint && len(t.work.out.SoftTaints) < taintsMax && !slices.Contains(t.work.out.SoftTaints, n.Name) {
		t.work.out.SoftTaints = append(t.work.out.SoftTaints, n.Name)
	}
}

// addForLater taints the nodes of commands that are found and not begun yet: pods that are evicted
// before would only be evicted again there.
func (t *softTaints) addForLater(steps []plan.Command) {
	later := map[string]bool{}
	for i := range steps {
		for _, r := range steps[i].Remove {
			if h := t.work.future.over.at[r.Node]; !t.work.taken[h] {
				later[r.Node] = true
				t.add(h)
			}
		}
	}
	if t.work.scope.search == DrainSearch { // it is not the whole plan
		return
	}
	if t.isOverSoon(len(later)) {
		t.reserve(later)
	}
	t.removeFrom(func(n *cluster.Node) bool { return !later[n.Name] })
}

// isOverSoon reports whether budgets allow to remove this many nodes in a few rounds. Of no nodes it
// reports false.
func (t *softTaints) isOverSoon(later int) bool {
	most := 0
	for i := range t.work.snap.Pools {
		if p := t.work.snap.Pools[i].Name; t.work.consolidates(p) {
			most += t.work.ledger.Most(p, Underutilized)
		}
	}
	return later > 0 && later <= reserveRounds*most
}

// reserve taints nodes that stay and need not take pods yet. It adds taints only when no command is
// in progress, and no more than there are nodes that go later: each is a write.
func (t *softTaints) reserve(later map[string]bool) {
	most := len(later)
	for _, i := range t.reserves(later) {
		n := &t.work.snap.Nodes[i]
		if n.SoftTaint {
			t.waits[i] = true
		} else if len(t.work.commands) == 0 && most > 0 {
			t.add(i)
			most--
		}
	}
}

// removeFrom removes the taint from nodes that stay. Nodes of commands keep it.
func (t *softTaints) removeFrom(stays func(*cluster.Node) bool) {
	for i := range t.work.snap.Nodes {
		n := &t.work.snap.Nodes[i]
		if n.SoftTaint && !n.Deleting && n.Planned == 0 && !t.work.taken[i] && !t.waits[i] && stays(n) && len(t.work.out.SoftTaintsOver) < taintsMax {
			t.work.out.SoftTaintsOver = append(t.work.out.SoftTaintsOver, n.Name)
		}
	}
}

// reserves returns the nodes that stay and need not take pods yet, emptiest first. The others have
// room for all pods that are pending or are being moved, if these go where least is free, largest
// pod first. Without the taint kube-scheduler binds each pod where most is free, so each node gets a
// little, and in the end no node has room for a large pod.
func (t *softTaints) reserves(later map[string]bool) (reserves []int) {
	for i := range t.work.snap.Nodes {
		n := &t.work.snap.Nodes[i]
		if n.Initialized && n.Ready && !n.Deleting && !n.Empty && !t.work.taken[i] && !later[n.Name] && t.work.consolidates(n.Pool) {
			reserves = append(reserves, i)
		}
	}
	if len(reserves) > reservesMax {
		return nil
	}
	used := make([]float64, len(t.work.snap.Nodes))
	for _, i := range reserves {
		used[i] = usedShare(&t.work.snap.Nodes[i])
	}
	slices.SortStableFunc(reserves, func(a, b int) int { return cmp.Compare(used[b], used[a]) })
	needed := t.fill(reserves)
	reserves = slices.DeleteFunc(reserves, func(i int) bool { return needed[i] })
	slices.Reverse(reserves)
	return reserves
}

// usedShare returns how much of a node's cpu and memory is used, as kube-scheduler adds it up.
func usedShare(n *cluster.Node) (share float64) {
	for _, name := range []string{quantity.CPU, quantity.Memory} {
		if all := n.Allocatable[name]; all > 0 {
			share += float64(n.Used[name]) / float64(all)
		}
	}
	return share
}

// fill returns which of the nodes are needed for the pods that are pending or are being moved, if
// each node, in order, takes all that it can.
func (t *softTaints) fill(nodes []int) map[int]bool {
	var constraintSets []*cluster.Constraints
	count := map[*cluster.Constraints]int{}
	add := func(s *cluster.Constraints) {
		if count[s]++; count[s] == 1 {
			constraintSets = append(constraintSets, s)
		}
	}
	for i := range t.work.snap.Pending {
		add(t.work.snap.Pending[i].Constraints)
	}
	for i, taken := range t.work.taken {
		for r := range t.work.snap.Nodes[i].Reschedulable {
			if taken {
				add(t.work.snap.Nodes[i].Reschedulable[r].Constraints)
			}
		}
	}
	slices.SortStableFunc(constraintSets, func(a, b *cluster.Constraints) int {
		return cmp.Compare(lifecycle.SizeOf(b.Requests), lifecycle.SizeOf(a.Requests))
	})
	needed, used := map[int]bool{}, map[int]quantity.List{}
	for _, s := range constraintSets {
		for _, i := range nodes {
			n := &t.work.snap.Nodes[i]
			if used[i] == nil {
				used[i] = n.Used
			}
			for count[s] > 0 && quantity.Add(used[i][quantity.CPU], s.Requests[quantity.CPU]) <= n.Allocatable[quantity.CPU] {
				sum := used[i].Plus(s.Requests)
				if !sum.Fits(n.Allocatable) {
					break
				}
				used[i], needed[i] = sum, true
				count[s]--
			}
			if count[s] == 0 {
				break
			}
		}
	}
	return needed
}
