package observe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestEssentialServesItsMetricsAndSeries has one metric that the level serves whole, one that it serves
// a part of, one of which no series is left, and one that it does not serve.
func TestEssentialServesItsMetricsAndSeries(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.Bugs.Inc()
	m.PlanSeconds.Observe(1)
	series := func(name string, of ...string) prometheus.Metric {
		desc := prometheus.NewDesc(name, "", []string{"namespace", "name", "type", "status", "reason"}, nil)
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, of...)
	}
	const claims = "operator_nodeclaim_status_condition_current_status_seconds"
	registry.MustRegister(constant{
		series(claims, "", "a", "Ready", "False", "r"), series(claims, "", "b", "Ready", "True", "r"),
		series(claims, "", "a", "Drifted", "Unknown", "r"), series(claims, "", "a", "Registered", "Unknown", "r"),
		series("operator_nodepool_status_condition_count", "", "p", "ValidationSucceeded", "True", "r"),
	})
	gather := func(level string) []string {
		families, err := AtLevel(registry, level).Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range families {
			switch name := f.GetName(); name {
			case "dovetail_bugs_total", "dovetail_plan_seconds", "operator_nodeclaim_status_condition_current_status_seconds", "operator_nodepool_status_condition_count":
				names = append(names, fmt.Sprint(name, " ", len(f.GetMetric())))
			}
		}
		return names
	}
	whole := []string{"dovetail_bugs_total 1", "dovetail_plan_seconds 1", "operator_nodeclaim_status_condition_current_status_seconds 4", "operator_nodepool_status_condition_count 1"}
	for level, want := range map[string][]string{
		LevelEssential: {"dovetail_bugs_total 1", "operator_nodeclaim_status_condition_current_status_seconds 2"},
		LevelDefault:   whole, LevelAll: whole, "": whole,
	} {
		if diff := cmp.Diff(want, gather(level)); diff != "" {
			t.Errorf("level %q (-want +got):\n%s", level, diff)
		}
	}
}

// constant is a collector of the same metrics each time.
type constant []prometheus.Metric

func (c constant) Describe(chan<- *prometheus.Desc) {}

func (c constant) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// TestDocsNameWhatIsEssential: docs/reference/metrics.md has the table of the level, and each metric in it
// has its row further up, with the labels that the table asks about.
func TestDocsNameWhatIsEssential(t *testing.T) {
	t.Parallel()
	doc := readDoc(t, "../../../docs/reference/metrics.md")
	_, table, _ := strings.Cut(doc, "\n| essential | only series with |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	labels := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge|histogram|summary)[a-z, ]* \\| ([^|]*) \\|").FindAllStringSubmatch(doc, -1) {
		labels[row[1]] = row[2]
	}
	var want []string
	metrics := essential()
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		var only []string
		for _, label := range slices.Sorted(maps.Keys(metrics[name])) {
			only = append(only, label+": "+strings.Join(metrics[name][label], ", "))
			if !slices.Contains(strings.Split(labels[name], ", "), label) {
				t.Errorf("%s has labels %q, and the level asks for %s", name, labels[name], label)
			}
		}
		if only == nil {
			only = []string{"–"}
		}
		want = append(want, fmt.Sprintf("| `%s` | %s |", name, strings.Join(only, "; ")))
		if _, is := labels[name]; !is && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is in the level essential, and no metric of docs/reference/metrics.md", name)
		}
	}
	if diff := cmp.Diff(want, strings.Split(table, "\n")); diff != "" {
		t.Errorf("the table of docs/reference/metrics.md (-want +got):\n%s", diff)
	}
}
