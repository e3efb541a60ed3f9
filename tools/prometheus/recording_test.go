package main

import (
	"compress/gzip"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	// lookback is how long a sample counts as the present one, as in Prometheus.
	lookback = 5 * time.Minute
	samples  = 50_000_000
)

// readRecording returns a recorded run of the controller, in the notation of Prometheus' tests.
func readRecording(t testing.TB) string {
	t.Helper()
	f, err := os.Open("testdata/recording.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recordedLabels returns the labels of each metric of the recording.
func recordedLabels(t testing.TB, recording string) map[string]map[string]bool {
	t.Helper()
	known := map[string]map[string]bool{}
	p := parser.NewParser(parser.Options{})
	for line := range strings.Lines(recording) {
		series, is := strings.CutPrefix(line, "  ")
		if !is {
			continue
		}
		metric, err := p.ParseMetric(series[:strings.LastIndex(series, "} ")+1])
		if err != nil {
			t.Fatalf("%s: %v", series, err)
		}
		name := metric.Get(labels.MetricName)
		if known[name] == nil {
			known[name] = map[string]bool{}
		}
		metric.Range(func(l labels.Label) { known[name][l.Name] = true })
	}
	return known
}

// documentedLabels returns the labels of each metric of docs/reference/metrics.md.
func documentedLabels(t testing.TB) map[string]map[string]bool {
	t.Helper()
	known := map[string]map[string]bool{}
	rows := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram|summary)[a-z, ]* \\| ([^|]*) \\|").FindAllStringSubmatch(readFile(t, "../../docs/reference/metrics.md"), -1)
	for _, row := range rows {
		of := map[string]bool{}
		for label := range strings.SplitSeq(strings.Trim(row[3], " –"), ", ") {
			of[label] = true
		}
		names := []string{row[1]}
		switch row[2] {
		case "histogram":
			of["le"] = true
			names = append(names, row[1]+"_bucket", row[1]+"_sum", row[1]+"_count")
		case "summary":
			of["quantile"] = true
			names = append(names, row[1]+"_sum", row[1]+"_count")
		}
		for _, name := range names {
			known[name] = of
		}
	}
	if len(known) < 100 {
		t.Fatalf("docs/reference/metrics.md names %d metrics", len(known))
	}
	return known
}

// foreign are the metrics of others that alerts ask for, with their labels.
func foreign() map[string]map[string]bool {
	container := map[string]bool{"container": true, "pod": true, "resource": true}
	return map[string]map[string]bool{
		"container_memory_working_set_bytes": container,
		"container_cpu_usage_seconds_total":  container,
		"kube_pod_container_resource_limits": container,
	}
}

// scraped are the labels that a scrape adds.
func scraped() []string { return []string{"cluster", "job", "instance", "namespace", "pod"} }

// vocabulary is which metrics and labels there are.
type vocabulary map[string]map[string]bool

func newVocabulary(t testing.TB) vocabulary {
	t.Helper()
	v := vocabulary{}
	for _, source := range []map[string]map[string]bool{recordedLabels(t, readRecording(t)), documentedLabels(t), foreign(), recordedByRules(t)} {
		for name, of := range source {
			if v[name] == nil {
				v[name] = map[string]bool{}
			}
			maps.Copy(v[name], of)
		}
	}
	return v
}

// unknown returns the metrics and labels of an expression that nothing has.
func (v vocabulary) unknown(expr parser.Expr) (words []string) {
	made := slices.Clone(scraped())
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			of, is := v[n.Name]
			if !is {
				words = append(words, n.Name)
			}
			for label := range of {
				made = append(made, label)
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !of[m.Name] && !slices.Contains(scraped(), m.Name) {
					words = append(words, n.Name+"{"+m.Name+"}")
				}
			}
		case *parser.Call:
			if n.Func.Name == "label_replace" {
				made = append(made, n.Args[1].(*parser.StringLiteral).Val)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var used []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range used {
			if !slices.Contains(made, label) {
				words = append(words, "by or on "+label)
			}
		}
		return nil
	})
	return words
}

func TestUnknownMetricsAndLabelsAreFound(t *testing.T) {
	t.Parallel()
	v := vocabulary{"a_total": {"x": true}, "b": {"y": true}}
	for expr, want := range map[string]string{
		`sum by (x, cluster) (rate(a_total{x="1", job="k"}[5m]))`: "",
		`a_total and on (y) b`:                                  "",
		`sum by (z) (label_replace(b, "z", "$1", "y", "(.*)"))`: "",
		`rate(a_totals[5m])`:                                    "a_totals",
		`a_total{y="1"}`:                                        "a_total{y}",
		`sum by (z) (a_total) / on (w) b`:                       "by or on w by or on z",
		`count(max_over_time(sum by (zone) (a_total)[5m:1m])) or vector(time())`: "by or on zone",
	} {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(v.unknown(e))); strings.Join(got, " ") != want {
			t.Errorf("%s: unknown are %v, want %s", expr, got, want)
		}
	}
}

func newEngine(t testing.TB) *promql.Engine {
	return promqltest.NewTestEngine(t, false, lookback, samples)
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
