package history

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// Explain returns what is known of what a person names: KIND NAME, KIND/NAME, NAMESPACE/NAME of a pod, or NAME; with types, of
// a node or NodeClaim also why it is of its instance type. The error is live.ErrUnknown if there is nothing of the name.
func (l *Live) Explain(asked string, types bool) ([]view.Explained, error) {
	if types { // the snapshot of a decision is read, of one at a time
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	q := question{types: types, explain: func(s journal.Subject) ([]journal.Answer, error) { return l.Journal.Explain(s), nil }, whole: l.whole}
	return q.answer(asked)
}

// Explain returns what is known of what a person names, as Live does.
func (k *Kept) Explain(asked string, types bool) ([]view.Explained, error) {
	k.Lock.Lock()
	defer k.Lock.Unlock()
	q := question{types: types, explain: k.File.Explain, whole: k.File.Whole}
	return q.answer(asked)
}

// question is what a person wants to know, and of whom.
type question struct {
	types   bool
	explain func(journal.Subject) ([]journal.Answer, error)
	// whole returns a decision with its snapshot; nil: that is not kept any more.
	whole func(journal.ID) (*record.Decision, error)
}

func (q *question) answer(asked string) ([]view.Explained, error) {
	s, err := journal.ParseSubject(strings.Fields(asked)...)
	if err != nil {
		return nil, err
	}
	answers, err := q.explain(s)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("there is no %s, and no decision is about one: %w", s, live.ErrUnknown)
	}
	all, isRanked := make([]view.Explained, len(answers)), false
	for i := range answers {
		a := &answers[i]
		all[i] = view.Explained{Kind: a.Kind, Name: a.Name, Now: a.Now, Ends: a.Ends, Node: a.Node, Claim: a.Claim, Pool: a.Pool, Facts: a.Facts}
		for _, say := range a.Says {
			all[i].Says = append(all[i].Says, view.Said{First: say.First, Last: say.Last, Times: say.Times, Decision: say.Decision.String(), What: say.What, Details: say.Details, Ends: say.Ends})
		}
		var id journal.ID
		if id, all[i].IsLaunch = a.LaunchedBy(); all[i].IsLaunch && q.types && !isRanked {
			all[i].Ranking, isRanked = q.rank(a, id), true // once: a decision is large
		}
	}
	return all, nil
}

// rank returns why what a decision launched is of its instance type.
func (q *question) rank(a *journal.Answer, id journal.ID) *view.Ranking {
	d, err := q.whole(id)
	if err == nil && d == nil {
		err = fmt.Errorf("the snapshot of decision %s is not kept any more", id)
	}
	if err == nil {
		err = a.Rank(d)
	}
	if err != nil {
		return &view.Ranking{Fault: err.Error()}
	}
	r := &view.Ranking{Caption: a.Ranking.Caption(), Titles: journal.RankingTitles()}
	r.Rows, r.PassedMore, r.HeldMore = a.Ranking.Rows()
	return r
}
