package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

// providerTypes is what a provider that is asked offers for node classes of its kinds.
type providerTypes struct {
	kinds      map[schema.GroupKind]bool
	vocabulary cloud.Vocabulary
	// ask returns what a class offers.
	ask func(cloud.ClassRef) ([]*catalog.Type, error)
	// answers are those by class, and failed is the first error.
	answers map[cloud.ClassRef][]*catalog.Type
	failed  error
	// notes are for the reader of the plan, and reads is Catalog.Reads; nil: nothing else was read.
	notes []string
	reads func(kind string) bool
	close func()
}

// join adds what the provider offers to a catalog, in place of what it has for the provider's kinds of node classes.
func (p *providerTypes) join(to *simulate.Catalog) {
	others, all := to.TypesOf, to.Types
	to.TypesOf = func(np *karpenterv1.NodePool) []*catalog.Type {
		class := np.Spec.Template.Spec.NodeClassRef
		switch {
		case class != nil && p.kinds[schema.GroupKind{Group: class.Group, Kind: class.Kind}]:
			return p.types(np.Name, cloud.ClassRef{Group: class.Group, Kind: class.Kind, Name: class.Name})
		case others != nil:
			return others(np)
		default:
			return all
		}
	}
	before := to.Reads
	to.Reads = func(kind string) bool { return before != nil && before(kind) || p.reads != nil && p.reads(kind) }
	to.Vocabulary.WellKnown = append(p.vocabulary.WellKnown, to.Vocabulary.WellKnown...)
	to.Vocabulary.RestrictedDomains = append(p.vocabulary.RestrictedDomains, to.Vocabulary.RestrictedDomains...)
}

// types returns what a class offers, which is asked once.
func (p *providerTypes) types(pool string, class cloud.ClassRef) []*catalog.Type {
	types, isKnown := p.answers[class]
	if isKnown {
		return types
	}
	types, err := p.ask(class)
	if err != nil && p.failed == nil {
		p.failed = fmt.Errorf("instance types for NodePool %s: %w", pool, err)
	}
	if p.answers == nil {
		p.answers = map[cloud.ClassRef][]*catalog.Type{}
	}
	p.answers[class] = types
	return types
}
