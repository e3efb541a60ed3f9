package cluster

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// alternativesMax bounds how many alternatives are kept: some of very many are forgotten
// rather than the solve made slow. To forget one can refuse a pod, never misplace it.
const alternativesMax = 64

// Volumes is what a pod's volumes ask of its node.
type Volumes struct {
	// Terms are the alternatives: in each, all volumes can be used. An empty term is
	// satisfied everywhere.
	Terms []label.Requirements
	// Attach is how many volumes must be attached, by resource name.
	Attach quantity.List
	// Invalid says why no node can be right for the volumes as they are; empty: one may be.
	Invalid string
}

// String is equal for volumes that ask for the same.
func (v *Volumes) String() string {
	var b strings.Builder
	for i, t := range v.Terms {
		if i > 0 {
			b.WriteString(" or ")
		}
		b.WriteString(t.String())
	}
	return b.String() + "; attach " + v.Attach.String() + "; " + v.Invalid
}

// WithVolumes returns the constraints of a pod that is like s, and has the volumes.
func (s *Constraints) WithVolumes(v *Volumes) *Constraints {
	with := *s
	with.OwnTerms, with.Terms = s.Terms, Meet(s.Terms, v.Terms)
	with.Requests = s.Requests.Plus(v.Attach)
	switch {
	case s.Invalid != "":
	case v.Invalid != "":
		with.Invalid = v.Invalid
	case len(with.Terms) == 0:
		with.Invalid = "the pod's volumes are where its node affinity does not let it be"
	}
	if len(with.Terms) == 0 {
		with.Terms = s.Terms
	}
	return &with
}

// CountedTerms returns the terms by which spread constraints report whether a node counts:
// the pod's own, because kube-scheduler does not look at volumes there.
func (s *Constraints) CountedTerms() []label.Requirements {
	if s.OwnTerms != nil {
		return s.OwnTerms
	}
	return s.Terms
}

// Meet returns what satisfies one term of each side, without what can never be.
func Meet(a, b []label.Requirements) (both []label.Requirements) {
	for _, x := range a {
		for _, y := range b {
			if _, conflict := x.Conflict(y); conflict {
				continue
			}
			if z := x.Intersect(y); !slices.ContainsFunc(both, z.Equal) {
				both = append(both, z)
			}
			if len(both) == alternativesMax {
				return both
			}
		}
	}
	return both
}
