package simulate

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
)

// CatalogNamed returns one of the catalogs that the binary has.
func CatalogNamed(name string) (Catalog, error) {
	switch name {
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
