// Package disrupt answers which running machines should go. Today it knows one reason:
// a machine that is empty and has been quiet for as long as its pool asks.
//
// A removal takes two looks: the first marks the machine so that no pod is bound to it
// any more, a later one finds it still empty and lets it go, or takes the mark back.
package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Empty is the API's word for the reason of removing empty nodes.
const Empty = "Empty"

// Options are what the operator may set.
type Options struct {
	// Settle is how long a mark must stand before the machine goes: by then every pod
	// that was bound before the mark has been seen.
	Settle time.Duration
}

// Propose returns what should be done about machines that could go: marks to set, marks
// to take back, removals. Blocked says for the others that are empty why they stay.
func Propose(snap *cluster.Snapshot, opts Options) plan.Plan {
	out := plan.Plan{At: snap.At}
	left := map[string]int{}
	for i := range snap.Pools {
		left[snap.Pools[i].Name] = budget.Left(snap, &snap.Pools[i], Empty)
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.Leaving || n.Claim == "" || n.Marked != "" && n.Marked != Empty {
			continue
		}
		why := stays(snap, n)
		switch {
		case n.Marked == Empty && !why.IsYes():
			out.Unmarks = append(out.Unmarks, removal(n))
		case n.Marked == Empty && !n.Closed:
			out.Marks = append(out.Marks, removal(n))
		case n.Marked == Empty && snap.At.Sub(n.MarkedSince) >= opts.Settle:
			out.Removals = append(out.Removals, removal(n))
		case n.Marked == Empty:
		case !n.Empty || !n.Initialised:
		case !why.IsYes():
			out.Blocked = append(out.Blocked, why)
		case left[n.Pool] == 0:
			out.Blocked = append(out.Blocked, verdict.Of(verdict.BudgetExhausted, n.Name, "the budgets of pool %s allow no more disruption for %s", n.Pool, Empty))
		default:
			left[n.Pool]--
			out.Marks = append(out.Marks, removal(n))
		}
	}
	return out
}

// stays returns why a machine is not removed for being empty; yes means that it may go.
func stays(snap *cluster.Snapshot, n *cluster.Node) verdict.Verdict {
	pool, ok := snap.PoolByName(n.Pool)
	switch {
	case !ok:
		return verdict.Of(verdict.NodeBlocked, n.Name, "its NodePool %q does not exist", n.Pool)
	case !n.Initialised:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is not initialised")
	case !n.Empty:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it has pods that need a node")
	case n.Held != "":
		return verdict.Of(verdict.NodeBlocked, n.Name, "%s", n.Held)
	case n.Planned > 0:
		return verdict.Of(verdict.NodeBlocked, n.Name, "%d pods are meant for it", n.Planned)
	case pool.ConsolidateAfter < 0:
		return verdict.Of(verdict.NotYetQuiet, n.Name, "consolidateAfter of pool %s is Never", n.Pool)
	case snap.At.Sub(n.QuietSince) < pool.ConsolidateAfter:
		return verdict.Of(verdict.NotYetQuiet, n.Name, "quiet for %s, pool %s asks for %s",
			snap.At.Sub(n.QuietSince).Round(time.Second), n.Pool, pool.ConsolidateAfter)
	}
	return verdict.Verdict{}
}

func removal(n *cluster.Node) plan.Removal {
	return plan.Removal{Node: n.Name, Claim: n.Claim, Pool: n.Pool, Reason: Empty}
}
