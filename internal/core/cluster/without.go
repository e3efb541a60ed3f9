package cluster

import "github.com/dovetail-sh/dovetail/internal/core/label"

// Without returns the constraints of a pod that must not be placed on nodes with these hostname
// labels. The rule is ours and kube-scheduler does not know of it, so it does not change which
// nodes count in the pod's topology spread.
func (s *Constraints) Without(hosts ...string) *Constraints {
	without := *s
	without.OwnTerms, without.Terms = s.CountedTerms(), make([]label.Requirements, len(s.Terms))
	for i, term := range s.Terms {
		without.Terms[i] = term.With(label.Hostname, label.NotIn(hosts...))
	}
	return &without
}
