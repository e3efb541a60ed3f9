package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// level is what a level of metrics serves: by name, the values that each label must have one of.
type level map[string]map[string][]string

// readLevel returns the level essential as docs/reference/metrics.md has it.
func readLevel(t testing.TB) level {
	t.Helper()
	_, table, _ := strings.Cut(readFile(t, "../../docs/reference/metrics.md"), "\n| essential | only series with |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	l := level{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]*) \\|$").FindAllStringSubmatch(table, -1) {
		l[row[1]] = map[string][]string{}
		for part := range strings.SplitSeq(row[2], "; ") {
			if label, values, is := strings.Cut(part, ": "); is {
				l[row[1]][label] = strings.Split(values, ", ")
			}
		}
	}
	if len(l) < 40 {
		t.Fatalf("only %d metrics in the table of the level essential", len(l))
	}
	return l
}

// of returns those of the lines of series that the level serves, and those of other programs than ours.
func (l level) of(t testing.TB, series string) string {
	t.Helper()
	p, ours := parser.NewParser(parser.Options{}), documentedLabels(t)
	var kept []string
	for line := range strings.Lines(series) {
		line = strings.TrimSpace(line)
		text := line[:strings.LastIndex(line, " ")]
		if i := strings.LastIndex(line, "}"); i >= 0 {
			text = line[:i+1]
		}
		metric, err := p.ParseMetric(text)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, is := ours[metric.Get(labels.MetricName)]; !is || l.serves(metric) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func (l level) serves(metric labels.Labels) bool {
	name := metric.Get(labels.MetricName)
	only, is := l[name]
	for _, end := range []string{"_bucket", "_sum", "_count"} {
		if !is {
			only, is = l[strings.TrimSuffix(name, end)]
		}
	}
	for label, values := range only {
		is = is && slices.Contains(values, metric.Get(label))
	}
	return is
}

// TestEssentialIsFew counts the series of the recorded run: the level is there to be few.
func TestEssentialIsFew(t *testing.T) {
	t.Parallel()
	essential, p := readLevel(t), parser.NewParser(parser.Options{})
	served, all := 0, 0
	for line := range strings.Lines(readRecording(t)) {
		series, is := strings.CutPrefix(line, "  ")
		if !is {
			continue
		}
		metric, err := p.ParseMetric(series[:strings.LastIndex(series, "} ")+1])
		if err != nil {
			t.Fatal(err)
		}
		all++
		if essential.serves(metric) {
			served++
		}
	}
	t.Logf("%d of %d series", served, all)
	if served == 0 || served > all/20 {
		t.Errorf("essential serves %d of the %d series of the recorded run, want at most a twentieth", served, all)
	}
}
