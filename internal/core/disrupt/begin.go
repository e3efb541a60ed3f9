package disrupt

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// begin adds to the plan a command that removes the nodes with these indexes, if budgets allow it.
func (w *work) begin(nodes []int, step plan.Command) {
	w.eligible[step.Reason] += len(nodes)
	need, short := w.needOf(nodes, step.Reason)
	if short != nil {
		w.block(w.exhausted(short, step.Reason))
		return
	}
	for pool, count := range need {
		w.ledger.Take(pool, step.Reason, count)
	}
	step.Remove = nil
	var claims []string
	priced := step.Reason == Underutilized // the search has computed what it saves
	for _, i := range nodes {
		n := &w.snap.Nodes[i]
		w.taken[i] = true
		step.Remove = append(step.Remove, removal(n, step.Reason))
		if !priced {
			step.SavingHourly += w.price(n)
			step.Evictions += n.Evictions()
		}
		claims = append(claims, n.Claim)
	}
	step.ID = stepID(claims, w.snap.At)
	for i := range step.Launch {
		step.Launch[i].Replaces = step.ID
		if !priced {
			step.SavingHourly -= step.Launch[i].PriceHourly
		}
	}
	ahead := w.future.ahead()
	ahead.remove(nodes)
	ahead.assign(step.Moves)
	ahead.holdLaunches(step.Launch)
	w.out.Commands = append(w.out.Commands, step)
}

// needOf counts the nodes with these indexes by pool. It also returns the first that its pool's budgets
// do not allow; nil: there is none.
func (w *work) needOf(nodes []int, reason string) (need map[string]int, short *cluster.Node) {
	need = map[string]int{}
	for _, i := range nodes {
		n := &w.snap.Nodes[i]
		if reason == Unhealthy && !n.Initialized {
			continue // budgets do not count it
		}
		if need[n.Pool]++; need[n.Pool] > w.ledger.Left(n.Pool, reason) && !w.urgent(n, reason) && short == nil {
			short = n
		}
	}
	return need, short
}

func (w *work) exhausted(n *cluster.Node, reason string) verdict.Verdict {
	return verdict.Of(verdict.BudgetExhausted, n.Name, "the budgets of pool %s allow no more disruption for %s", n.Pool, reason)
}

// price returns what a node costs per hour, in dollars; 0 if that is not known.
func (w *work) price(n *cluster.Node) float64 {
	if w.prices == nil {
		w.prices = cluster.NewPrices(w.snap)
	}
	dollars, _ := w.prices.Of(n)
	return dollars
}

// stepID returns a name for a command that no other has.
func stepID(claims []string, at time.Time) string {
	h := fnv.New64a()
	for _, c := range claims {
		_, _ = h.Write([]byte(c + "\n"))
	}
	return fmt.Sprintf("%x-%x", at.UnixMilli(), h.Sum64())
}
