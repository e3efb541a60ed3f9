package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// templateReplacement returns the command that replaces a node of a static pool: one node is
// launched for it as the pool's template has it, whatever pods there are. While both are there
// the pool has a node more than its replicas, so its limit must leave room for one, and so must its
// reservations if it can launch into these only. If they do not, the node may go first.
func (w *work) templateReplacement(n *cluster.Node, pool *cluster.Pool, reason string) (plan.Command, verdict.Verdict) {
	count := static.CountOf(w.snap, pool.Name)
	if count.Active+count.Pending > pool.Replicas {
		return plan.Command{}, verdict.Of(verdict.NodeBlocked, n.Name, "static NodePool %s has more nodes than its replicas, and the surplus goes first", pool.Name)
	}
	for i := range w.out.Commands {
		for j := range w.out.Commands[i].Launch {
			if w.out.Commands[i].Launch[j].Pool == pool.Name {
				count.Active++
			}
		}
	}
	first := w.opts.TerminateFirst.allows(reason)
	switch {
	case count.Room(pool) == 0 && first:
		return plan.Command{Reason: reason, TerminateFirst: plan.StaticAtLimit}, verdict.Verdict{}
	case count.Room(pool) == 0:
		return plan.Command{}, verdict.Of(verdict.NodeBlocked, n.Name, "static NodePool is at its node limit and cannot stage a replacement")
	case reservationsFull(pool) && first && w.holdsPlace(n, pool):
		return plan.Command{Reason: reason, TerminateFirst: plan.NoReservedCapacity}, verdict.Verdict{}
	case reservationsFull(pool):
		return plan.Command{}, verdict.Of(verdict.NodeBlocked, n.Name, "static NodePool's capacity reservations are full and cannot stage a replacement")
	}
	launch, why := static.Replacement(pool, n)
	if !why.IsYes() {
		return plan.Command{}, verdict.Of(verdict.NoReplacement, n.Name, "%s", why)
	}
	launches := []plan.Launch{launch}
	for i := range w.out.Commands {
		launches = append(launches, w.out.Commands[i].Launch...)
	}
	if !withinSupplies(w.snap, launches) {
		return plan.Command{}, verdict.Of(verdict.NoReplacement, n.Name, "static NodePool's supplies are used up and cannot stage a replacement")
	}
	return plan.Command{Reason: reason, Launch: []plan.Launch{launch}}, verdict.Verdict{}
}
