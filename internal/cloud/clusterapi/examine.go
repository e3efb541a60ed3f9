package clusterapi

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// Examined is what a class would launch from, for somebody who looks before the controller runs.
type Examined struct {
	// Types are the instance types. Without any, Unusable says why.
	Types    []*catalog.Type
	Unusable string
	// Selected are the MachineDeployments that the class selects, namespace/name, sorted.
	Selected []string
	// Notes say which of them cannot be launched from, and why.
	Notes []string
	// Unpriced are those without a price, and Zoneless those whose nodes have no zone.
	Unpriced, Zoneless []string
	// Clones are the kinds that are cloned for a Machine, by the kinds of template that they are cloned from.
	Clones map[schema.GroupKind]schema.GroupKind
}

// Examine reads what a class would launch from. An error of the class itself says what to change in it.
func Examine(ctx context.Context, p *Provider, class *clusterapiv1alpha1.ClusterAPINodeClass) (*Examined, error) {
	f, err := p.find(ctx, class)
	if err != nil {
		return nil, err
	}
	l := newListing(f)
	s := &Examined{Types: l.types, Notes: l.notes, Clones: map[schema.GroupKind]schema.GroupKind{}}
	if !l.usable() {
		s.Unusable = nothingUsable(l)
	}
	for i := range f.candidates {
		c := &f.candidates[i]
		s.Selected = append(s.Selected, c.key.String())
		for _, r := range []reference{c.deployment.infrastructure, c.deployment.bootstrap} {
			if r != (reference{}) {
				s.Clones[r.groupKind()] = schema.GroupKind{Group: r.Group, Kind: strings.TrimSuffix(r.Kind, templateSuffix)}
			}
		}
	}
	for _, entries := range l.entries {
		for _, e := range entries {
			if !e.offering.Priced {
				s.Unpriced = append(s.Unpriced, e.deployment.key.String())
			}
			if e.offering.Zone == "" {
				s.Zoneless = append(s.Zoneless, e.deployment.key.String())
			}
		}
	}
	for _, names := range []*[]string{&s.Selected, &s.Unpriced, &s.Zoneless} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return s, nil
}

// CoreVersion returns the version of Cluster API's own kinds that is used. The error of a cluster that has not all of them is one
// that IsUnserved is true of.
func CoreVersion(p *Provider) (string, error) {
	var version string
	for _, kind := range []string{kindCluster, kindDeployment, kindMachine} {
		gvk, err := p.mgmt.core(kind)
		if err != nil {
			return "", err
		}
		version = gvk.GroupVersion().String()
	}
	return version, nil
}

// IsUnserved reports whether an error says that a cluster does not have a kind.
func IsUnserved(err error) bool { return isUnserved(err) }
