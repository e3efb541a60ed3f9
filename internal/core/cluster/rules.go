package cluster

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Rules say where a pod may be in relation to other pods. All of them must hold.
type Rules struct {
	Spread       []Spread
	Affinity     []PodTerm
	AntiAffinity []PodTerm
}

// Spread is a topology spread constraint: no domain of the key may have more than
// MaxSkew selected pods more than the one with the fewest.
type Spread struct {
	Key     string
	MaxSkew int32
	// MinDomains is how many domains there must be before the fewest counts as more than
	// none; 0: no such rule.
	MinDomains int32
	Selector   Selector
	// IgnoreAffinity counts nodes that the pod's own node affinity rules out, too.
	IgnoreAffinity bool
	// HonorTaints leaves nodes out whose taints the pod does not tolerate.
	HonorTaints bool
}

// PodTerm is one term of pod affinity or anti-affinity.
type PodTerm struct {
	Key      string
	Selector Selector
	// Namespaces are those whose pods are selected. NamespaceSelector adds those whose
	// labels it matches.
	Namespaces        []string
	NamespaceSelector Selector
}

// Selects reports whether the term selects pods with the labels in a namespace; namespaces are the labels of each one.
// An empty NamespaceSelector selects every namespace, also one that is not known yet.
func (t *PodTerm) Selects(namespace string, labels map[string]string, namespaces map[string]map[string]string) bool {
	in := slices.Contains(t.Namespaces, namespace)
	if !in && t.NamespaceSelector.Some {
		of, known := namespaces[namespace]
		in = known && t.NamespaceSelector.Selects(of) || len(t.NamespaceSelector.Requirements) == 0
	}
	return in && t.Selector.Selects(labels)
}

// Selector selects pods by their labels. The zero Selector selects none.
type Selector struct {
	// Some is set for a selector that is there; with no Requirements it selects all.
	Some         bool
	Requirements label.Requirements
}

// Selects reports whether the labels match.
func (s *Selector) Selects(labels map[string]string) bool {
	if !s.Some {
		return false
	}
	_, ok := s.Requirements.Matches(labels)
	return ok
}

// Preference is one preference: a rule that is kept as long as it can be. Exactly one of the
// fields is set.
type Preference struct {
	// Node is what the node's labels should satisfy. Of several only the first that has
	// not been given up is asked for.
	Node         label.Requirements
	Spread       *Spread
	Affinity     *PodTerm
	AntiAffinity *PodTerm
}
