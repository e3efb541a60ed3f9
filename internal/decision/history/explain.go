package history

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// Explain returns what is known of what a person names: KIND NAME, KIND/NAME, NAMESPACE/NAME of a pod, or NAME. The error is
// live.ErrUnknown if there is nothing of the name.
func (l *Live) Explain(asked string) ([]view.Explained, error) {
	return explained(asked, func(s journal.Subject) ([]journal.Answer, error) { return l.Journal.Explain(s), nil })
}

// Explain returns what is known of what a person names, as Live does.
func (k *Kept) Explain(asked string) ([]view.Explained, error) {
	k.Lock.Lock()
	defer k.Lock.Unlock()
	return explained(asked, k.File.Explain)
}

func explained(asked string, explain func(journal.Subject) ([]journal.Answer, error)) ([]view.Explained, error) {
	s, err := journal.ParseSubject(strings.Fields(asked)...)
	if err != nil {
		return nil, err
	}
	answers, err := explain(s)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("there is no %s, and no decision is about one: %w", s, live.ErrUnknown)
	}
	all := make([]view.Explained, len(answers))
	for i := range answers {
		a := &answers[i]
		all[i] = view.Explained{Kind: a.Kind, Name: a.Name, Now: a.Now, Ends: a.Ends, Node: a.Node, Claim: a.Claim, Pool: a.Pool, Facts: a.Facts}
		for _, say := range a.Says {
			all[i].Says = append(all[i].Says, view.Said{First: say.First, Last: say.Last, Times: say.Times, Decision: say.Decision.String(), What: say.What, Details: say.Details, Ends: say.Ends})
		}
	}
	return all, nil
}
