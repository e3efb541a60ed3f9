package e2e

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// scrapeEvery is how often a recording asks for metrics.
const scrapeEvery = 5 * time.Second

// recording is what a controller has shown at its metrics port, scrape by scrape.
type recording struct {
	mu      sync.Mutex
	scrapes int                 // guarded by mu
	series  map[string][]sample // guarded by mu; by name and labels as they were shown
}

// sample is the value of a series in one scrape.
type sample struct {
	scrape int
	value  string
}

// recordMetrics scrapes an address until the returned function is called.
func recordMetrics(t *testing.T, address string) (r *recording, stop func()) {
	t.Helper()
	r = &recording{series: map[string][]sample{}}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		ticks := time.NewTicker(scrapeEvery)
		defer ticks.Stop()
		for {
			r.scrape(ctx, t, address)
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
	})
	return r, func() { cancel(); done.Wait() }
}

// scrape adds what is shown now. A request that the end of the recording interrupts adds nothing.
func (r *recording) scrape(ctx context.Context, t *testing.T, address string) {
	text, err := fetch(ctx, address)
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("scrape: %v", err)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		r.series[line[:i]] = append(r.series[line[:i]], sample{r.scrapes, line[i+1:]})
	}
	r.scrapes++
}

// labels returns the labels that each metric was shown with: by the metric's name without the ending
// of a histogram's or summary's series, and without the labels that these endings have.
func (r *recording) labels() map[string]map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	shown := map[string]map[string]bool{}
	for series := range r.series {
		name, labels := splitSeries(series)
		for _, base := range []string{name, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")} {
			if shown[base] == nil {
				shown[base] = map[string]bool{}
			}
			for label := range labels {
				if label != "le" && label != "quantile" {
					shown[base][label] = true
				}
			}
		}
	}
	return shown
}

// has returns an error unless a series of the name with these words in its labels has been shown, not 0.
func (r *recording) has(name string, words ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for series, samples := range r.series {
		shown, _ := splitSeries(series)
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(series, word) })
		if shown == name && !missing && slices.ContainsFunc(samples, func(s sample) bool { return s.value != "0" }) {
			return nil
		}
	}
	return fmt.Errorf("no series %s with %q has been other than 0", name, words)
}

// values returns the values of a label that a metric was shown with, sorted.
func (r *recording) values(name, label string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for series := range r.series {
		if shown, labels := splitSeries(series); shown == name {
			all[labels[label]] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// splitSeries returns the name and the labels of a series as it is shown.
func splitSeries(series string) (name string, labels map[string]string) {
	name, rest, _ := strings.Cut(series, "{")
	labels = map[string]string{}
	for rest != "" && rest != "}" {
		key, after, _ := strings.Cut(rest, `="`)
		end := 0
		for after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		labels[key], rest = after[:end], strings.TrimPrefix(after[end+1:], ",")
	}
	return name, labels
}

// write writes the recording, compressed, in the notation of Prometheus' tests, with the labels that a
// ServiceMonitor's scrape adds. What Go's runtime says of itself is left out.
func (r *recording) write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, err := range []error{r.print(compressed), compressed.Close(), f.Close()} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recording) print(to io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	up := make([]sample, r.scrapes)
	for i := range up {
		up[i] = sample{i, "1"}
	}
	all := maps.Clone(r.series)
	all["up"] = up
	if _, err := fmt.Fprintf(to, "load %ds\n", int(scrapeEvery.Seconds())); err != nil {
		return err
	}
	for _, series := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(series, "go_") {
			continue
		}
		if _, err := fmt.Fprintf(to, "  %s %s\n", scraped(series), notation(all[series])); err != nil {
			return err
		}
	}
	return nil
}

// scraped returns a series with the labels of the scrape, which win over the series' own.
func scraped(series string) string {
	name, labels := splitSeries(series)
	if own := labels["namespace"]; own != "" {
		labels["exported_namespace"] = own
	}
	maps.Copy(labels, map[string]string{"job": "karpenter", "namespace": "kube-system", "instance": "10.0.0.1:8080"})
	var pairs []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if labels[label] != "" {
			pairs = append(pairs, label+`="`+labels[label]+`"`)
		}
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// notation returns the values of a series from the first scrape on: 3x4 is 3 and four times 3 more, and _
// a scrape without the series.
func notation(samples []sample) string {
	var words []string
	word, more := "", 0
	add := func(next string) {
		if next == word {
			more++
			return
		}
		switch {
		case word == "_": // repeats count the first
			words = append(words, fmt.Sprintf("_x%d", more+1))
		case word == "NaN" || word == "Inf": // are words, after which there is no x
			words = append(words, slices.Repeat([]string{word}, more+1)...)
		case more > 0:
			words = append(words, fmt.Sprintf("%sx%d", word, more))
		case word != "":
			words = append(words, word)
		}
		word, more = next, 0
	}
	at := 0
	for _, s := range samples {
		for ; at < s.scrape; at++ {
			add("_")
		}
		add(strings.TrimPrefix(s.value, "+"))
		at++
	}
	add("")
	return strings.Join(words, " ")
}

func TestARecordingIsInTheNotationOfPrometheusTests(t *testing.T) {
	t.Parallel()
	r := &recording{scrapes: 6, series: map[string][]sample{
		`karpenter_pods_state{name="a\"},{",namespace="default",owner=""}`: {{1, "1"}, {2, "1"}, {3, "1"}, {5, "2"}},
		`karpenter_pods_bound_duration_seconds_bucket{le="+Inf"}`:          {{0, "0"}},
		`karpenter_pods_startup_duration_seconds{quantile="1"}`:            {{0, "NaN"}, {1, "NaN"}},
		`go_goroutines`: {{0, "7"}},
	}}
	const scrape = `instance="10.0.0.1:8080",job="karpenter",`
	want := "load 5s\n" +
		`  karpenter_pods_bound_duration_seconds_bucket{` + scrape + `le="+Inf",namespace="kube-system"} 0` + "\n" +
		`  karpenter_pods_startup_duration_seconds{` + scrape + `namespace="kube-system",quantile="1"} ` + strings.Repeat(" NaN", 2)[1:] + "\n" +
		`  karpenter_pods_state{exported_namespace="default",` + scrape + `name="a\"},{",namespace="kube-system"} _x1 1x2 _x1 2` + "\n" +
		`  up{` + scrape + `namespace="kube-system"} 1x5` + "\n"
	var got strings.Builder
	if err := r.print(&got); err != nil || got.String() != want {
		t.Errorf("the recording is\n%swant\n%s%v", got.String(), want, err)
	}
}
