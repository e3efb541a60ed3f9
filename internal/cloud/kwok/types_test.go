package kwok

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

func TestDefaultTypesAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	types := DefaultTypes()
	names := map[string]*catalog.Type{}
	for _, typ := range types {
		names[typ.Name] = typ
		if len(typ.Offerings) != 8 {
			t.Errorf("%s has %d offerings, want four zones twice", typ.Name, len(typ.Offerings))
		}
	}
	if len(types) != 144 || len(names) != 144 {
		t.Errorf("there are %d types with %d names, want 144", len(types), len(names))
	}
	for name, want := range map[string]struct {
		labels         map[string]string
		capacity       quantity.List
		onDemand, spot float64
	}{
		"c-1x-amd64-linux": {
			map[string]string{
				"node.kubernetes.io/instance-type": "In [c-1x-amd64-linux]", "kubernetes.io/arch": "In [amd64]", "kubernetes.io/os": "In [linux]",
				"topology.kubernetes.io/zone": "In [test-zone-a test-zone-b test-zone-c test-zone-d]", "karpenter.sh/capacity-type": "In [on-demand spot]",
				"karpenter.kwok.sh/instance-cpu": "In [1]", "karpenter.kwok.sh/instance-memory": "In [2Gi]",
				"karpenter.kwok.sh/instance-family": "In [c]", "karpenter.kwok.sh/instance-size": "In [1]",
			},
			quantity.List{"cpu": 1000, "memory": 2 << 30, "ephemeral-storage": 20 << 30, "pods": 16},
			0.027147483648, 0.0190032385536,
		},
		"m-256x-arm64-windows": {
			map[string]string{
				"node.kubernetes.io/instance-type": "In [m-256x-arm64-windows]", "kubernetes.io/arch": "In [arm64]", "kubernetes.io/os": "In [windows]",
				"topology.kubernetes.io/zone": "In [test-zone-a test-zone-b test-zone-c test-zone-d]", "karpenter.sh/capacity-type": "In [on-demand spot]",
				"karpenter.kwok.sh/instance-cpu": "In [256]", "karpenter.kwok.sh/instance-memory": "In [2Ti]",
				"karpenter.kwok.sh/instance-family": "In [m]", "karpenter.kwok.sh/instance-size": "In [256]",
			},
			quantity.List{"cpu": 256000, "memory": 2 << 40, "ephemeral-storage": 20 << 30, "pods": 1024},
			8.599023255552, 6.0193162788864,
		},
	} {
		typ := names[name]
		if typ == nil {
			t.Errorf("there is no type %s", name)
			continue
		}
		got := map[string]string{}
		for key, requirement := range typ.Requirements {
			got[key] = requirement.String()
		}
		if diff := cmp.Diff(want.labels, got); diff != "" {
			t.Errorf("%s: requirements (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want.capacity, typ.Capacity); diff != "" {
			t.Errorf("%s: capacity (-want +got):\n%s", name, diff)
		}
		for _, o := range typ.Offerings {
			price := map[string]float64{"on-demand": want.onDemand, "spot": want.spot}[o.CapacityType]
			if diff := o.PriceHourly - price; diff > 1e-12 || diff < -1e-12 || !o.Priced || !o.Available {
				t.Errorf("%s %s in %s costs %v, want %v", name, o.CapacityType, o.Zone, o.PriceHourly, price)
			}
		}
	}
	free := names["c-1x-amd64-linux"].Allocatable()
	if free[quantity.CPU] != 900 || free[quantity.Memory] != 2<<30-10<<20 {
		t.Errorf("allocatable of c-1x is %v, want 100m and 10Mi less than its capacity", free)
	}
}

func TestFamilyAndSizeComeFromTheName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"m5.large": {"m5", "large"},
		"c-16x-x":  {"c", "16"},
		"huge":     {"h", "16"},
	} {
		types, err := parseTypes([]byte(`[{"name":"` + name + `","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":16,"memory":"1Gi"},` + oneOffering + `}]`))
		if err != nil {
			t.Fatal(err)
		}
		family, _ := types[0].Requirements["karpenter.kwok.sh/instance-family"].Only()
		size, _ := types[0].Requirements["karpenter.kwok.sh/instance-size"].Only()
		if family != want[0] || size != want[1] {
			t.Errorf("%s is of family %q and size %q, want %q", name, family, size, want)
		}
	}
}

func TestVocabularyHasTheLabelsOfTypesAndOfferings(t *testing.T) {
	t.Parallel()
	p := &Provider{types: DefaultTypes()}
	want := []string{
		"karpenter.kwok.sh/instance-cpu", "karpenter.kwok.sh/instance-family", "karpenter.kwok.sh/instance-memory",
		"karpenter.kwok.sh/instance-size", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone",
	}
	if diff := cmp.Diff(want, p.Vocabulary().WellKnown); diff != "" {
		t.Errorf("well-known labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"karpenter.kwok.sh"}, p.Vocabulary().RestrictedDomains); diff != "" {
		t.Errorf("restricted domains (-want +got):\n%s", diff)
	}
	for _, key := range slices.Sorted(maps.Keys(p.types[0].Requirements)) {
		if !slices.Contains(decidedKeys(p.types), key) {
			t.Errorf("%s is decided by a type and not listed", key)
		}
	}
}
