package cluster

import "github.com/dovetail-sh/dovetail/internal/core/label"

// Without returns the constraints of a pod that is not to be placed on nodes with these
// hostname labels. kube-scheduler knows of no such rule, so it does not change what the
// pod's spread counts.
func (s *Constraints) Without(hosts ...string) *Constraints {
	without := *s
	without.OwnTerms, without.Terms = s.CountedTerms(), make([]label.Requirements, len(s.Terms))
	for i, term := range s.Terms {
		without.Terms[i] = term.With(label.Hostname, label.NotIn(hosts...))
	}
	return &without
}
