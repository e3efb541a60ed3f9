// Package history says what past decisions did, and what came of it: one decision with the outcome of each
// of its commands, and all that was done in a span of time. What ended a command stands in a later decision
// of the journal.
//
// It may import decision/journal and view. Read Of and DecisionOf first, then actions.go (what one decision
// did) and outcome.go (what later ones made of it).
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// Filter says which actions are wanted. The zero Filter: those that change something.
type Filter struct {
	Since, Until time.Time
	// Reasons are those of which one must be the action's; Pool and Namespace must be among its own.
	Reasons         []string
	Pool, Namespace string
	// All: what changes nothing in the cluster is wanted too: placed and refused pods, taints, proposals.
	All bool
}

// Reasons returns the disruption reasons that a person's word names; none: it names none. Words are the
// API's, the loops', and those that documents use.
func Reasons(word string) []string {
	switch strings.ToLower(word) {
	case "drift":
		return []string{plan.Drifted}
	case "expiry", "expiration":
		return []string{plan.Expired}
	case "consolidation":
		return []string{plan.Underutilized, plan.Empty}
	case "interruption":
		return []string{plan.Interrupted}
	case "repair":
		return []string{plan.Unhealthy}
	}
	for _, known := range ReasonNames() {
		if strings.EqualFold(known, word) {
			return []string{known}
		}
	}
	return nil
}

// ReasonNames returns the reasons by their own names.
func ReasonNames() []string {
	return []string{
		plan.Drifted, plan.Empty, plan.Expired, plan.Interrupted, plan.Underutilized, plan.Unhealthy,
		string(record.Provisioning), string(record.Static),
	}
}

// Of returns what the decisions of a journal did.
func Of(file *journal.File, wanted *Filter) (view.History, error) {
	h := view.History{Head: view.Head{Format: view.Format, Kind: "History"}, Since: wanted.Since, Until: wanted.Until, Actions: []view.Action{}, Reasons: []view.ReasonSum{}}
	said, err := readAll(file)
	if err != nil {
		return h, err
	}
	sums, begun := &summary{byKey: map[[2]string]*view.ReasonSum{}}, map[string]bool{}
	for i := range said {
		s := said[i]
		if h.Oldest.IsZero() {
			h.Oldest = s.head.At
		}
		h.At = s.head.At
		if !wanted.within(s.head.At) {
			continue
		}
		addPrice(&h, s.head)
		for k := range s.out {
			a := &s.out[k]
			if !wanted.wants(a) || a.Kind == view.ActionDelete && !wanted.All && begun[a.Remove[0].Name] {
				continue // what came of a command stands with it
			}
			for _, n := range a.Remove {
				begun[n.Name] = a.Kind == view.ActionBegin
			}
			end := s.end(said[i+1:], k)
			a.Outcome = end.outcome
			h.Actions = append(h.Actions, *a)
			sums.add(a, end.reason)
		}
	}
	slices.Reverse(h.Actions)
	h.Reasons = sums.list()
	return h, nil
}

// readAll returns what each decision did, in the order in which they were made.
func readAll(file *journal.File) ([]*teller, error) {
	said := make([]*teller, 0, len(file.Decisions))
	for i := range file.Decisions {
		e := &file.Decisions[i]
		d, err := e.Plan()
		if err != nil {
			return nil, err
		}
		said = append(said, actionsOf(&e.Head, d))
	}
	slices.SortStableFunc(said, func(a, b *teller) int { return a.head.At.Compare(b.head.At) })
	return said, nil
}

func (f *Filter) within(at time.Time) bool {
	return !at.Before(f.Since) && (f.Until.IsZero() || !at.After(f.Until))
}

func (f *Filter) wants(a *view.Action) bool {
	switch a.Kind {
	case view.ActionPlace, view.ActionRefuse, view.ActionTaint, view.ActionUntaint, view.ActionProposed:
		if !f.All {
			return false
		}
	}
	return (len(f.Reasons) == 0 || slices.Contains(f.Reasons, a.Reason)) && (f.Pool == "" || slices.Contains(a.Pools, f.Pool)) &&
		(f.Namespace == "" || slices.Contains(a.Namespaces, f.Namespace))
}

// addPrice takes in what the nodes cost at a decision.
func addPrice(h *view.History, head *journal.Head) {
	if head.Loop == record.Static || head.Nodes == 0 { // a static pool's decision has the nodes of that pool alone
		return
	}
	at, price := head.At, head.PriceBefore
	if h.Prices == nil {
		h.Prices = &view.PriceSpan{First: price, FirstAt: at, Least: price, LeastAt: at, Peak: price, PeakAt: at}
	}
	p := h.Prices
	p.Last, p.LastAt = price, at
	if price < p.Least {
		p.Least, p.LeastAt = price, at
	}
	if price > p.Peak {
		p.Peak, p.PeakAt = price, at
	}
	p.Points = append(p.Points, view.Point{At: at, Decision: head.ID.String(), PriceHourly: price})
}

// summary adds up commands.
type summary struct {
	byKey map[[2]string]*view.ReasonSum
}

func (s *summary) add(a *view.Action, cancelled verdict.Reason) {
	if a.Kind != view.ActionBegin {
		return
	}
	key := [2]string{a.Reason, strings.Join(a.Pools, ", ")}
	sum := s.byKey[key]
	if sum == nil {
		sum = &view.ReasonSum{Reason: a.Reason, Pool: key[1], First: a.At}
		s.byKey[key] = sum
	}
	sum.Last = a.At
	sum.Begun, sum.Nodes, sum.Launches = sum.Begun+1, sum.Nodes+len(a.Remove), sum.Launches+len(a.Launch)
	sum.Evictions, sum.SavingHourly = sum.Evictions+a.Evictions, sum.SavingHourly+a.SavingHourly
	if a.Outcome == nil {
		return
	}
	sum.Deleted += a.Outcome.Deleted
	if !a.Outcome.Cancelled {
		return
	}
	sum.Kept += len(a.Remove) - a.Outcome.Deleted
	at := slices.IndexFunc(sum.Causes, func(c view.CauseCount) bool { return c.Reason == cancelled })
	if at < 0 {
		at = len(sum.Causes)
		sum.Causes = append(sum.Causes, view.CauseCount{Reason: cancelled})
	}
	sum.Causes[at].Count++
}

func (s *summary) list() []view.ReasonSum {
	out := []view.ReasonSum{}
	for _, sum := range s.byKey {
		slices.SortFunc(sum.Causes, func(a, b view.CauseCount) int {
			return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason))
		})
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b view.ReasonSum) int {
		return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Pool, b.Pool))
	})
	return out
}

// DecisionOf returns one decision. whole is it with its snapshot, from another read of the journal perhaps;
// nil: it is read from the journal, with its snapshot if that is kept.
func DecisionOf(file *journal.File, id journal.ID, whole *record.Decision) (view.Decision, error) {
	e, err := file.Find(id)
	if err != nil {
		return view.Decision{}, err
	}
	hasSnapshot := whole != nil
	if whole == nil {
		if whole, hasSnapshot, err = e.Whole(); err != nil {
			return view.Decision{}, fmt.Errorf("read decision %s: %w", e.ID, err)
		}
	}
	v := view.Decision{
		Head: view.Head{Format: view.Format, Kind: "Decision", At: e.At}, ID: e.ID.String(), Loop: string(e.Loop), Version: e.Written, Took: e.Took,
		PendingPods: e.Pending, Nodes: e.Nodes, PriceBefore: e.PriceBefore, PriceAfter: e.PriceAfter, LaunchBound: e.Bound, FleetBound: e.FleetBound,
		Again: e.Again, Until: e.Until, HasSnapshot: hasSnapshot, Actions: []view.Action{}, Stays: max(whole.Stays.Count, len(whole.Disruption.Blocked)),
	}
	said, err := readAll(file)
	if err != nil {
		return view.Decision{}, err
	}
	at := slices.IndexFunc(said, func(t *teller) bool { return t.head == &e.Head })
	t := actionsOf(&e.Head, whole)
	for k := range t.out {
		t.out[k].Outcome = t.end(said[at+1:], k).outcome
	}
	v.Actions = append(v.Actions, t.out...)
	v.PriceBoth = bothOf(v.Actions, v.PriceBefore)
	v.Result = resultOf(v.Actions, said[at:])
	return v, nil
}
