package observe

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// many is a source of one family with many series, and one with the series of a hostile name.
type many int

func (n many) Families() []Family {
	return []Family{
		{Name: "karpenter_many", Help: "A number.", Labels: []string{"number", "parity"}, Each: func(write func(float64, ...string)) {
			for i := range int(n) {
				write(float64(i), strconv.Itoa(i), []string{"even", "odd"}[i%2])
			}
		}},
		{Name: "karpenter_hostile", Help: "A\nname.", Labels: []string{"name"}, Each: func(write func(float64, ...string)) {
			write(1, "a\"b\\c\n# EOF\nd 1")
		}},
		{Name: "karpenter_none", Each: func(func(float64, ...string)) {}},
	}
}

// answer returns what a scrape answers to a request with such headers.
func answer(t *testing.T, s *Scrape, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestAllSeriesAreServedOnce has more series than are in memory at once, none, and one more or less than fill it.
func TestAllSeriesAreServedOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	NewMetrics(registry).Bugs.Inc()
	for _, n := range []int{0, 1, seriesAtOnce - 1, seriesAtOnce, seriesAtOnce + 1, 3*seriesAtOnce + 7} {
		s := NewScrape(registry, LevelDefault)
		s.Add(many(n))
		var want strings.Builder
		if n > 0 {
			want.WriteString("# HELP karpenter_many A number.\n# TYPE karpenter_many gauge\n")
		}
		for i := range n {
			fmt.Fprintf(&want, "karpenter_many{number=\"%d\",parity=\"%s\"} %d\n", i, []string{"even", "odd"}[i%2], i)
		}
		want.WriteString("# HELP karpenter_hostile A\\nname.\n# TYPE karpenter_hostile gauge\nkarpenter_hostile{name=\"a\\\"b\\\\c\\n# EOF\\nd 1\"} 1\n")
		text := answer(t, s, "/metrics").Body.String()
		before, after, _ := strings.Cut(text, "# HELP karpenter_many")
		if n == 0 {
			before, after, _ = strings.Cut(text, "# HELP karpenter_hostile")
			after = "# HELP karpenter_hostile" + after
		} else {
			after = "# HELP karpenter_many" + after
		}
		if !strings.Contains(before, "\ndovetail_bugs_total 1\n") {
			t.Errorf("what the registry gathers is not served:\n%s", before)
		}
		if diff := cmp.Diff(want.String(), after); diff != "" {
			t.Errorf("%d series (-want +got):\n%s", n, diff)
		}
	}
}

// TestFormatsOfAScrape: clients that ask for it get OpenMetrics, which ends with a mark, or gzip; nobody gets protobuf.
func TestFormatsOfAScrape(t *testing.T) {
	t.Parallel()
	s := NewScrape(prometheus.NewRegistry(), LevelDefault)
	s.Add(many(2*seriesAtOnce + 1))
	for accept, want := range map[string]string{
		"": "text/plain", "*/*": "text/plain", "text/plain": "text/plain",
		"application/openmetrics-text;version=1.0.0,text/plain;q=0.5":                                                               "application/openmetrics-text",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;version=0.0.4;q=0.5": "text/plain",
	} {
		w := answer(t, s, "/metrics", "Accept: "+accept)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("Accept %q: Content-Type %q, want %s", accept, got, want)
		}
		text := w.Body.String()
		if ends := strings.HasSuffix(text, "\n# EOF\n"); ends != strings.HasPrefix(want, "application") {
			t.Errorf("Accept %q: the end is marked: %t", accept, ends)
		}
		if n := strings.Count(text, "# TYPE karpenter_many gauge\n"); n != 1 {
			t.Errorf("Accept %q: the header of a family is there %d times", accept, n)
		}
	}
	zipped := answer(t, s, "/metrics", "Accept-Encoding: gzip")
	if got := zipped.Header().Get("Content-Encoding"); got != "gzip" {
		t.Errorf("Content-Encoding %q, want gzip", got)
	}
	r, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answer(t, s, "/metrics").Body.String(), string(text)); diff != "" {
		t.Errorf("with gzip (-without +with):\n%s", diff)
	}
}

// TestAPartIsServed: a level, or names that are asked for, leave out families and series.
func TestAPartIsServed(t *testing.T) {
	t.Parallel()
	ready := family("operator_nodeclaim_status_condition_current_status_seconds", "type", "status")
	ready.Each = func(write func(float64, ...string)) {
		write(1, "Ready", "False")
		write(2, "Ready", "True")
		write(3, "Drifted", "False")
	}
	for _, tc := range []struct{ level, path, want string }{
		{LevelEssential, "/metrics", "operator_nodeclaim_status_condition_current_status_seconds 1"},
		{LevelDefault, "/metrics", "dovetail_gathered 1, karpenter_hostile 1, karpenter_many 2, operator_nodeclaim_status_condition_current_status_seconds 3"},
		{LevelDefault, "/metrics?name[]=karpenter_many&name[]=other", "karpenter_many 2"},
		{LevelEssential, "/metrics?name[]=karpenter_many", ""},
	} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "dovetail_gathered"}))
		s := NewScrape(registry, tc.level)
		s.Add(many(2), families{ready})
		counted := map[string]int{}
		for key := range parsed(t, answer(t, s, tc.path).Body) {
			name, _, _ := strings.Cut(key, " ")
			counted[name]++
		}
		if got := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(counted), "map["), "]"), ":", " "); got != strings.ReplaceAll(tc.want, ",", "") {
			t.Errorf("%s at level %s: %s, want %s", tc.path, tc.level, got, tc.want)
		}
	}
}

// TestSeriesTakeNoMemory: what a scrape allocates does not grow with the number of series.
//
//nolint:paralleltest // allocations are counted over all goroutines
func TestSeriesTakeNoMemory(t *testing.T) {
	allocated := func(n int) float64 {
		s := NewScrape(prometheus.NewRegistry(), LevelDefault)
		labels := []string{"same"}
		f := family("karpenter_many", "name")
		f.Each = func(write func(float64, ...string)) {
			for range n {
				write(1, labels...)
			}
		}
		s.Add(families{f})
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		return testing.AllocsPerRun(1, func() { s.ServeHTTP(new(counter), r) })
	}
	few, more := allocated(seriesAtOnce), allocated(100*seriesAtOnce)
	if perBatch := (more - few) / 99; perBatch > 20 {
		t.Errorf("%v objects are allocated for each %d series", perBatch, seriesAtOnce)
	}
}

type families []Family

func (f families) Families() []Family { return f }

func family(name string, labels ...string) Family { return Family{Name: name, Labels: labels} }

// scraped returns the series of a source, with their labels in alphabetical order.
func scraped(t *testing.T, source Source) map[string]float64 {
	t.Helper()
	s := NewScrape(prometheus.NewRegistry(), LevelDefault)
	s.Add(source)
	return parsed(t, answer(t, s, "/metrics").Body)
}

// parsed reads the text of a scrape. No series is there twice.
func parsed(t *testing.T, text io.Reader) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	read, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range read {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				key += " " + name + "=" + labels[name]
			}
			if _, twice := got[key]; twice {
				t.Errorf("%s is served twice", key)
			}
			got[key] = m.GetGauge().GetValue()
		}
	}
	return got
}
