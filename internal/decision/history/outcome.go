package history

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// ending is what came of an action, and why if it was cancelled.
type ending struct {
	outcome *view.Outcome
	reason  verdict.Reason
}

// end looks in later decisions for what ended the action of that index.
func (t *teller) end(later []*teller, index int) ending {
	a := &t.out[index]
	switch {
	case a.Kind == view.ActionBegin:
		return endOfCommand(t.commands[index], t.head.At, later)
	case a.Kind == view.ActionLaunch && a.Launch[0].Claim != "":
		return endOfNode(a.Launch[0].Claim, later)
	default:
		return ending{}
	}
}

// endOfCommand finds out whether the nodes of a command were deleted, or the command was undone.
func endOfCommand(c *plan.Command, at time.Time, later []*teller) ending {
	going := map[string]bool{}
	for i := range c.Remove {
		going[c.Remove[i].Node] = true
	}
	out := &view.Outcome{At: at}
	for _, next := range later {
		out.At = next.head.At
		d := &next.decision.Disruption
		for i := range d.Undos {
			if u := &d.Undos[i]; u.Command == c.ID {
				out.Cancelled, out.Decision, out.Why = true, next.head.ID.String(), u.Why.String()
				return ending{out, u.Why.Reason}
			}
		}
		for i := range d.Removals {
			if going[d.Removals[i].Node] {
				delete(going, d.Removals[i].Node)
				out.Deleted++
			}
		}
		if len(going) == 0 {
			out.Done, out.Decision = true, next.head.ID.String()
			return ending{outcome: out}
		}
	}
	return ending{outcome: out}
}

// endOfNode finds out whether a node that was launched was deleted later by a decision.
func endOfNode(claim string, later []*teller) ending {
	for _, next := range later {
		d := &next.decision.Disruption
		for _, list := range [][]plan.Removal{d.Removals, next.decision.Scaling.Removals} {
			for i := range list {
				if list[i].Claim == claim {
					return ending{outcome: &view.Outcome{Done: true, At: next.head.At, Decision: next.head.ID.String(), Deleted: 1, Why: list[i].Reason}}
				}
			}
		}
	}
	return ending{}
}

// resultOf sums up what came of commands and launches; nil: there are no commands that were begun, and of no launch
// it is known where its pods went. The first of said is the decision itself.
func resultOf(actions []view.Action, said []*teller) *view.Result {
	r, last := &view.Result{Known: said[len(said)-1].head.At}, said[0].head.At
	for i := range actions {
		a := &actions[i]
		for _, l := range a.AllLanded() {
			r.PodsPlanned, r.PodsThere = r.PodsPlanned+l.Pods, r.PodsThere+l.There
		}
		if a.Kind != view.ActionBegin {
			continue
		}
		switch o := a.Outcome; {
		case o.Done:
			r.Done++
		case o.Cancelled:
			r.Cancelled++
		default:
			r.Open++
		}
		if a.Outcome.At.After(last) {
			last = a.Outcome.At
		}
	}
	switch {
	case r.Done+r.Cancelled+r.Open > 0:
	case r.PodsPlanned > 0:
		return r
	default:
		return nil
	}
	for _, next := range said[1:] {
		if r.Open == 0 && next.head.Loop != record.Static && next.head.Nodes > 0 && next.head.At.After(last) {
			r.PriceHourly, r.At = next.head.PriceBefore, next.head.At
			break
		}
	}
	return r
}

// bothOf returns what nodes cost while those that commands launch run beside those that they remove; 0: no command
// that was begun launches any.
func bothOf(actions []view.Action, before float64) float64 {
	launched := 0.0
	for i := range actions {
		for k := range actions[i].Launch {
			if actions[i].Kind == view.ActionBegin {
				launched += actions[i].Launch[k].PriceHourly
			}
		}
	}
	if launched == 0 {
		return 0
	}
	return before + launched
}
