package translate

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// HeldByDevices is why a node is not removed by choice for a pod that has devices.
const HeldByDevices = "the pod needs ResourceClaims, and no node is removed for a pod that does"

// PodResourceClaims returns, for each entry of a pod's resourceClaims, the name of its ResourceClaim,
// or of its ResourceClaimTemplate while there is none.
func PodResourceClaims(p *corev1.Pod) []PodResourceClaim {
	var all []PodResourceClaim
	for i := range p.Spec.ResourceClaims {
		entry := &p.Spec.ResourceClaims[i]
		c := PodResourceClaim{}
		if entry.ResourceClaimName != nil {
			c.Claim = *entry.ResourceClaimName
		}
		if entry.ResourceClaimTemplateName != nil {
			c.Template = *entry.ResourceClaimTemplateName
		}
		for j := range p.Status.ResourceClaimStatuses {
			if made := &p.Status.ResourceClaimStatuses[j]; made.Name == entry.Name {
				c.IsUnneeded = made.ResourceClaimName == nil
				if made.ResourceClaimName != nil {
					c.Claim = *made.ResourceClaimName
				}
			}
		}
		all = append(all, c)
	}
	return all
}

// PodResourceClaim is one of a pod's resourceClaims.
type PodResourceClaim struct {
	// Claim is its name; empty: it is still to be made from Template. IsUnneeded: none will be.
	Claim, Template string
	IsUnneeded      bool
}

// AllocatedWhere returns the alternatives of where an allocated ResourceClaim can be used. host
// returns the hostname of a node. No alternative: nowhere.
func AllocatedWhere(s *corev1.NodeSelector, host func(node string) (name string, isKnown bool)) []label.Requirements {
	if s == nil {
		return []label.Requirements{{}}
	}
	var terms []label.Requirements
	for i := range s.NodeSelectorTerms {
		if r, ok := allocatedTerm(&s.NodeSelectorTerms[i], host); ok {
			terms = append(terms, r)
		}
	}
	return terms
}

func allocatedTerm(t *corev1.NodeSelectorTerm, host func(node string) (string, bool)) (r label.Requirements, ok bool) {
	r = label.Requirements{}
	for _, f := range t.MatchFields {
		if len(f.Values) != 1 || f.Operator != corev1.NodeSelectorOpIn {
			return nil, false
		}
		name, known := host(f.Values[0])
		if !known {
			return nil, false
		}
		r.Add(label.Hostname, label.In(cmp.Or(name, f.Values[0])))
	}
	for _, e := range t.MatchExpressions {
		q, err := label.Parse(label.Operator(e.Operator), e.Values)
		if err != nil {
			return nil, false
		}
		r.Add(NormalKey(e.Key), q)
	}
	return r, len(r) > 0
}
