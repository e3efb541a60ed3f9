package ec2catalog

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

func all(t *testing.T) map[string]*catalog.Type {
	t.Helper()
	types, err := Types()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*catalog.Type{}
	for _, typ := range types {
		byName[typ.Name] = typ
	}
	return byName
}

// TestWorkedExample is the one of the AWS provider's behaviour: m5.large.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	typ := all(t)["m5.large"]
	want := quantity.List{
		quantity.CPU: 1930, quantity.Memory: 6903 * mebibyte, quantity.Pods: 29, quantity.EphemeralStorage: 17 * gibibyte,
	}
	if diff := cmp.Diff(want, typ.Allocatable()); diff != "" {
		t.Errorf("allocatable of m5.large (-want +got):\n%s", diff)
	}
	if len(typ.Offerings) != 10 {
		t.Errorf("m5.large has %d offerings, want on demand and spot in five zones", len(typ.Offerings))
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	types := all(t)
	if len(types) != 908 || len(table) > 400_000 {
		t.Errorf("%d types in %d bytes, want 908 in less than 400 kB", len(types), len(table))
	}
	known := WellKnown()
	sold := 0
	for name, typ := range types {
		if len(typ.Offerings) > 0 {
			sold++
		}
		for key := range typ.Requirements {
			if len(key) > len(Domain) && key[:len(Domain)] == Domain && !slices.Contains(known, key) {
				t.Errorf("%s has the label %s, which is not well known", name, key)
			}
		}
		for _, o := range typ.Offerings {
			if o.PriceHourly <= 0 {
				t.Errorf("%s costs %v in %s as %s", name, o.PriceHourly, o.Zone, o.CapacityType)
			}
		}
	}
	if sold != 897 {
		t.Errorf("%d types are sold somewhere, want all but 11", sold)
	}
}

func TestCorrections(t *testing.T) {
	t.Parallel()
	types := all(t)
	cases := map[string]struct {
		pods   int64
		extra  quantity.List
		labels map[string]string // after Domain/instance-; empty: it has none
	}{
		"c6in.32xlarge":    {pods: 394, labels: map[string]string{"category": "c", "generation": "6", "gpu-name": ""}},
		"p5.48xlarge":      {pods: 100, extra: quantity.List{"nvidia.com/gpu": 8}, labels: map[string]string{"gpu-name": "h100", "gpu-memory": "81920"}},
		"g4dn.xlarge":      {pods: 29, extra: quantity.List{"nvidia.com/gpu": 1}, labels: map[string]string{"gpu-name": "t4", "accelerator-name": ""}},
		"trn1.32xlarge":    {pods: 247, extra: quantity.List{"aws.amazon.com/neuron": 16}, labels: map[string]string{"accelerator-name": "trainium", "gpu-count": ""}},
		"dl1.24xlarge":     {pods: 737, extra: quantity.List{"habana.ai/gaudi": 8}, labels: map[string]string{"accelerator-manufacturer": "habana"}},
		"u-6tb1.112xlarge": {pods: 737, labels: map[string]string{"category": "u", "generation": "1"}},
		"c7i-flex.large":   {pods: 29, labels: map[string]string{"capability-flex": "true", "category": "c", "generation": "7"}},
	}
	for name, tc := range cases {
		typ := types[name]
		if typ == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		if got := typ.Capacity[quantity.Pods]; got != tc.pods {
			t.Errorf("%s takes %d pods, want %d", name, got, tc.pods)
		}
		for resource, n := range tc.extra {
			if typ.Capacity[resource] != n {
				t.Errorf("%s has %d of %s, want %d", name, typ.Capacity[resource], resource, n)
			}
		}
		for key, want := range tc.labels {
			q, got := typ.Requirements[instance(key)], ""
			if v, ok := q.Only(); ok {
				got = v
			}
			if got != want || want == "" && q.Operator() != label.OpDoesNotExist {
				t.Errorf("%s: instance-%s is %q, want %q", name, key, got, want)
			}
		}
	}
}
