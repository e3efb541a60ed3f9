package testkit

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Gathered returns the values of metrics that have labels, and the sums of those that measure.
// Names lose the prefix, which they must have; labels are those that say something, by value.
func Gathered(t testing.TB, from prometheus.Gatherer, prefix string) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		name, wanted := strings.CutPrefix(f.GetName(), prefix)
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, l.GetValue())
				}
			}
			if wanted && len(labels) > 0 {
				values[name+"{"+strings.Join(labels, " ")+"}"] = m.GetCounter().GetValue() + m.GetSummary().GetSampleSum() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return values
}
