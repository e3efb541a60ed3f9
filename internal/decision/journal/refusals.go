package journal

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Refused is a pod that nothing can take, for one reason: since when, until when as far
// as is known, and how many decisions said so.
type Refused struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	UID       string         `json:"uid"`
	Reason    verdict.Reason `json:"reason"`
	Why       string         `json:"why"`
	First     time.Time      `json:"first"`
	Last      time.Time      `json:"last"`
	Times     int64          `json:"times"`
}

// Pod returns whose refusal it is.
func (r *Refused) Pod() cluster.PodRef {
	return cluster.PodRef{Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

type refusalKey struct {
	pod cluster.PodRef
	why string
}

// refusals is the index of refusals: one entry for a pod and a verdict, however often it
// was said. When it is full, those last said longest ago go.
type refusals struct {
	max   int
	index map[refusalKey]*Refused
	// current are the entries of the newest decision.
	current []*Refused
}

func newRefusals(most int) *refusals { return &refusals{max: most, index: map[refusalKey]*Refused{}} }

// decided takes the refusals of a decision in.
func (r *refusals) decided(p *plan.Plan, at time.Time) {
	r.current = r.current[:0]
	// Pods of one workload share their verdict, and its words take long to find.
	type shared struct {
		causes          *verdict.Verdict
		subject, detail string
	}
	words := map[shared]string{}
	for i := range p.Refusals {
		no := &p.Refusals[i]
		alike := shared{subject: no.Why.Subject, detail: no.Why.Detail}
		if len(no.Why.Causes) > 0 {
			alike.causes = &no.Why.Causes[0]
		}
		why, ok := words[alike]
		if !ok {
			why = no.Why.String()
			words[alike] = why
		}
		key := refusalKey{no.Pod, why}
		e := r.index[key]
		if e == nil {
			e = &Refused{Namespace: no.Pod.Namespace, Name: no.Pod.Name, UID: no.Pod.UID, Reason: no.Why.Reason, Why: why, First: at}
			r.index[key] = e
		}
		r.current = append(r.current, e)
	}
	r.again(1, at)
	r.prune()
}

// again takes in that the newest decision was come to so many times more.
func (r *refusals) again(times int64, until time.Time) {
	for _, e := range r.current {
		e.Times += times
		e.Last = until
	}
}

// prune forgets a tenth of the entries when there are too many, so that it is rarely done.
func (r *refusals) prune() {
	if len(r.index) <= r.max {
		return
	}
	all := r.list()
	slices.SortStableFunc(all, func(a, b Refused) int { return a.Last.Compare(b.Last) })
	for i := range len(all) - r.max + r.max/10 {
		delete(r.index, refusalKey{all[i].Pod(), all[i].Why})
	}
}

// merge takes in what another index has said, which may be of the same decisions.
func (r *refusals) merge(others []Refused) {
	for _, o := range others {
		key := refusalKey{o.Pod(), o.Why}
		e := r.index[key]
		if e == nil {
			r.index[key] = &o
			continue
		}
		e.Times = max(e.Times, o.Times)
		if o.First.Before(e.First) {
			e.First = o.First
		}
		if o.Last.After(e.Last) {
			e.Last = o.Last
		}
	}
	r.prune()
}

// list returns the entries, those said first first.
func (r *refusals) list() []Refused {
	all := make([]Refused, 0, len(r.index))
	for _, e := range r.index {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b Refused) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Why, b.Why))
	})
	return all
}
