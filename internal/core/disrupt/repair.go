package disrupt

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// diagnosis is what the ailments of a node come to.
type diagnosis struct {
	// chief is the ailment that is reported, and whose action is taken.
	chief cluster.Ailment
	// bound is how long the drain may take.
	bound cluster.Bound
	// score orders nodes: the highest is repaired first.
	score float64
}

// diagnose merges the ailments of a node that are due, or else all, whatever their order. It reports
// whether any is due.
func diagnose(n *cluster.Node, at time.Time) (d diagnosis, isDue bool) {
	var due []cluster.Ailment
	for _, a := range n.Ailments {
		if !at.Before(a.Due) {
			due = append(due, a)
		}
	}
	if isDue = len(due) > 0; !isDue {
		due = n.Ailments
	}
	for i, a := range due {
		if i == 0 || comesBefore(&a, &d.chief) {
			d.chief = a
		}
		d.bound = d.bound.Or(a.Bound)
		d.score = max(d.score, float64(a.Rank)+float64(at.Sub(a.Due))/float64(rankWorth))
	}
	if d.bound.IsSet && n.HasGrace {
		d.bound = d.bound.Or(cluster.Bound{IsSet: true, Within: n.Grace})
	}
	return d, isDue
}

// comesBefore reports whether an ailment rather than the other decides what is done: that of the more
// disruptive action, or else of the higher priority, or else that is due first.
func comesBefore(a, b *cluster.Ailment) bool {
	if a.Reboot != b.Reboot {
		return b.Reboot
	}
	return cmp.Or(cmp.Compare(b.Rank, a.Rank), a.Due.Compare(b.Due), cmp.Compare(a.Condition, b.Condition)) < 0
}

// unhealthy proposes to repair nodes: those that are worst first, of these those whose pods are the
// cheapest to evict.
func (r *replacer) unhealthy() {
	at := r.work.snap.At
	r.replace(Unhealthy, func(n *cluster.Node) bool {
		_, isDue := diagnose(n, at)
		return isDue
	}, func(a, b *cluster.Node) int {
		first, _ := diagnose(a, at)
		second, _ := diagnose(b, at)
		return cmp.Or(cmp.Compare(second.score, first.score),
			cmp.Compare(static.EvictionCost(r.work.snap, a), static.EvictionCost(r.work.snap, b)), cmp.Compare(a.Name, b.Name))
	})
}

// unrepairableNow is unrepairable of a node whose repair has not begun.
func (w *work) unrepairableNow(n *cluster.Node) verdict.Verdict {
	if why := w.unrepairable(n); !why.IsYes() {
		return why
	}
	return w.outage(n)
}

// unrepairable returns why a node may not be repaired; yes means that it may. The node's annotation
// do-not-disrupt does not count, nor whether it is initialized. Its pods can hold it only if its drain
// has no bound, and those that are meant for it only while it is ready.
func (w *work) unrepairable(n *cluster.Node) verdict.Verdict {
	switch {
	case !n.Registered:
		return verdict.Of(verdict.NodeBlocked, n.Name, "node isn't initialized nor registered")
	case n.DoNotRepair:
		return verdict.Of(verdict.NodeBlocked, n.Name, "annotation karpenter.sh/do-not-repair on the node")
	}
	as := *n
	as.Initialized, as.HasGrace = true, true
	if !n.DoNotDisruptByPods {
		as.DoNotDisrupt = ""
	}
	if !n.Ready {
		as.Planned = 0
	}
	why := w.blocked(&as, true)
	if d, _ := diagnose(n, w.snap.At); !why.IsYes() || d.bound.IsSet || n.HasGrace {
		return why
	}
	as.HasGrace = false
	if why = w.blocked(&as, true); !why.IsYes() {
		why.Detail = "repair requires a termination grace period, of the node or of the repair policy: " + why.Detail
	}
	return why
}

// health is how many Nodes a pool has, and how many of them are unhealthy, be it tolerated yet or not.
type health struct{ nodes, unhealthy int }

// outage returns why no node of a pool is repaired: so many are unhealthy that the cause lies
// elsewhere, and new nodes would not be better.
func (w *work) outage(n *cluster.Node) verdict.Verdict {
	if w.health == nil {
		w.health = map[string]health{}
		for i := range w.snap.Nodes {
			m := &w.snap.Nodes[i]
			if h := w.health[m.Pool]; m.Registered {
				h.nodes++
				if len(m.Ailments) > 0 {
					h.unhealthy++
				}
				w.health[m.Pool] = h
			}
		}
	}
	h := w.health[n.Pool]
	if h.unhealthy <= (h.nodes+unhealthyPart-1)/unhealthyPart {
		return verdict.Verdict{}
	}
	return verdict.Of(verdict.RepairBlocked, n.Name, "%d of the %d nodes of pool %s are unhealthy, more than a fifth", h.unhealthy, h.nodes, n.Pool)
}

// reboots has a node rebooted if that is what repairs it.
func (w *work) reboots(i int) bool {
	n := &w.snap.Nodes[i]
	d, _ := diagnose(n, w.snap.At)
	if !d.chief.Reboot || !w.opts.Repair.CanReboot || slices.Contains(w.opts.Repair.Escalated, n.Claim) {
		return false
	}
	w.eligible[Unhealthy]++
	if n.Initialized {
		w.ledger.Take(n.Pool, Unhealthy, 1)
	}
	w.taken[i] = true
	w.out.Reboots = append(w.out.Reboots, plan.Reboot{
		Node: n.Name, Claim: n.Claim, Pool: n.Pool, Condition: d.chief.Condition, Cause: d.chief.Reason, Bound: d.bound,
	})
	return true
}
