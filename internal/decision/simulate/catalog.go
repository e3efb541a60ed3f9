package simulate

import (
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

// CatalogNamed returns one of the catalogs that the binary has; of no name: for each NodePool the one that its
// nodeClassRef asks for.
func CatalogNamed(name string) (Catalog, error) {
	switch name {
	case "":
		return catalogByClass()
	case "kwok":
		p, err := kwok.New(nil, kwok.Options{Now: func() time.Time { return time.Time{} }})
		if err != nil {
			return Catalog{}, err
		}
		return Catalog{Types: kwok.DefaultTypes(), Vocabulary: p.Vocabulary()}, nil
	case "ec2":
		types, err := ec2catalog.Types()
		if err != nil {
			return Catalog{}, err
		}
		return Catalog{Types: types, Vocabulary: cloud.Vocabulary{WellKnown: ec2catalog.WellKnown(), RestrictedDomains: []string{ec2catalog.Domain}}}, nil
	default:
		return Catalog{}, fmt.Errorf("there is no catalog %q: it must be kwok or ec2", name)
	}
}

// catalogByClass returns what node classes offer by their group. A NodePool without one has the types of kwok.
func catalogByClass() (Catalog, error) {
	kwokTypes, err := CatalogNamed("kwok")
	if err != nil {
		return Catalog{}, err
	}
	ec2, err := CatalogNamed("ec2")
	if err != nil {
		return Catalog{}, err
	}
	both := Catalog{MustKnow: true, TypesOf: func(np *karpenterv1.NodePool) []*catalog.Type {
		class := np.Spec.Template.Spec.NodeClassRef
		if class == nil {
			return kwokTypes.Types
		}
		switch class.Group {
		case "", kwokv1alpha1.Group:
			return kwokTypes.Types
		case awsv1.GroupVersion.Group, groupAutoMode:
			return ec2.Types
		default:
			return nil
		}
	}}
	both.Vocabulary.WellKnown = slices.Concat(ec2.Vocabulary.WellKnown, kwokTypes.Vocabulary.WellKnown)
	both.Vocabulary.RestrictedDomains = slices.Concat(ec2.Vocabulary.RestrictedDomains, kwokTypes.Vocabulary.RestrictedDomains)
	return both, nil
}

// groupAutoMode is that of the node classes of EKS Auto Mode.
const groupAutoMode = "eks.amazonaws.com"
