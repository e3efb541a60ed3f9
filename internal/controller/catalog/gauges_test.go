package catalog

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestGauges shows a type that two classes can launch, in different zones and at different
// prices, one of them not known.
func TestGauges(t *testing.T) {
	t.Parallel()
	of := func(offerings ...catalog.Offering) *catalog.Type {
		return &catalog.Type{Name: "m5.large", Capacity: quantity.List{quantity.CPU: 2000, quantity.Memory: 8 << 30}, Offerings: offerings}
	}
	g := newGauges(func() [][]*catalog.Type {
		return [][]*catalog.Type{
			{of(
				catalog.Offering{Zone: "a", CapacityType: label.Spot, PriceHourly: 0.5, Priced: true},
				catalog.Offering{Zone: "a", CapacityType: label.OnDemand, Available: true},
			)},
			{of(catalog.Offering{Zone: "a", CapacityType: label.Spot, PriceHourly: 0.25, Priced: true, Available: true})},
		}
	}, true)
	reg := prometheus.NewRegistry()
	reg.MustRegister(g)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			got = append(got, fmt.Sprintf("%s %s: %g", strings.TrimPrefix(f.GetName(), "karpenter_cloudprovider_instance_type_"), strings.Join(values, " "), m.GetGauge().GetValue()))
		}
	}
	want := []string{
		"cpu_cores m5.large: 2", "memory_bytes m5.large: 8.589934592e+09",
		"offering_available on-demand m5.large a: 1", "offering_available reserved m5.large a: 0", "offering_available spot m5.large a: 1",
		"offering_price_estimate spot m5.large a: 0.25",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gauges (-want +got):\n%s", diff)
	}
}

func TestDocsNameTheMetricsOfTypes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 4)
	newGauges(nil, false).Describe(descs)
	close(descs)
	for desc := range descs {
		_, name, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if row := "| `" + name + "` | gauge, type | instance_type"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/reference/metrics.md has no row that starts with\n\t%s", row)
		}
	}
}
