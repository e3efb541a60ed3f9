package operator

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// TestWhatReportsTheClusterIsOnLoopbackOnly asks every port for everything.
func TestWhatReportsTheClusterIsOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	kept, err := journal.Open(journal.Options{MemoryBytes: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := serve(&Settings{JournalMemoryBytes: 1 << 20, EnableProfiling: true}, observe.NewScrape(prometheus.NewRegistry(), ""), kept, &live.Views{Latest: &live.Latest{}, Now: time.Now}, &leadership{alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.close)
	host, port, err := net.SplitHostPort(srv.debug.address())
	if err != nil || !net.ParseIP(host).IsLoopback() || port == "0" {
		t.Errorf("/debug is served on %s", srv.debug.address())
	}
	for path, at := range map[string]*endpoint{
		"/metrics": &srv.metrics, "/healthz": &srv.health, "/readyz": &srv.health,
		"/debug/journal": &srv.debug, "/debug/view/overview": &srv.debug, "/debug/journal/all": &srv.debug, "/debug/pprof/": &srv.debug, "/debug/pprof/cmdline": &srv.debug,
	} {
		for _, e := range []*endpoint{&srv.metrics, &srv.health, &srv.debug} {
			_, port, err := net.SplitHostPort(e.address())
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if serves := answer.StatusCode != http.StatusNotFound; serves != (e == at) {
				t.Errorf("%s on %s: status %d", path, e.address(), answer.StatusCode)
			}
		}
	}
}

// TestMetricsAreThoseOfTheLevel reads the metrics of each level.
func TestMetricsAreThoseOfTheLevel(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := observe.NewMetrics(registry)
	m.ObservePlan(time.Second, "")
	for level, want := range map[string]bool{observe.LevelEssential: false, observe.LevelDefault: true, observe.LevelAll: true} {
		srv, err := serve(&Settings{}, observe.NewScrape(registry, level), nil, nil, &leadership{alone: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.close)
		answer := httptest.NewRecorder()
		srv.metrics.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := answer.Body.String()
		if !strings.Contains(text, "\ndovetail_bugs_total 0\n") || strings.Contains(text, "\ndovetail_plan_seconds_count 1\n") != want {
			t.Errorf("level %s serves\n%s", level, text)
		}
	}
}

// TestMetricsHaveTheSameNamesInBothFormats reads the metrics as text and as OpenMetrics, which alone shows the
// decision that took so long.
func TestMetricsHaveTheSameNamesInBothFormats(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := observe.NewMetrics(registry)
	m.ObservePlan(time.Second, "17.6f3k9a")
	m.ObservePlan(time.Minute, "")
	m.JournalDecisions.WithLabelValues("provisioning", "written").Inc()
	srv, err := serve(&Settings{}, observe.NewScrape(registry, ""), nil, nil, &leadership{alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.close)
	_, port, err := net.SplitHostPort(srv.metrics.address())
	if err != nil {
		t.Fatal(err)
	}
	read := func(accept string) (names []string, exemplars string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close() //nolint:errcheck // it was read only
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", answer.StatusCode, err)
		}
		for line := range strings.Lines(string(text)) {
			if name := regexp.MustCompile(`^\w+`).FindString(line); name != "" {
				names = append(names, name)
			}
			if _, exemplar, has := strings.Cut(line, " # "); has {
				exemplars += exemplar
			}
		}
		slices.Sort(names)
		return names, exemplars
	}
	text, none := read("text/plain")
	open, exemplars := read("application/openmetrics-text;version=1.0.0")
	if diff := cmp.Diff(text, open); diff != "" || len(text) == 0 {
		t.Errorf("names (-text +OpenMetrics):\n%s", diff)
	}
	if none != "" || !strings.HasPrefix(exemplars, `{decision="17.6f3k9a"} 1.0`) || strings.Count(exemplars, "decision") != 1 {
		t.Errorf("exemplars as text %q, as OpenMetrics %q", none, exemplars)
	}
}

func TestEveryServerHasItsBounds(t *testing.T) {
	t.Parallel()
	srv, err := serve(&Settings{EnableProfiling: true}, observe.NewScrape(prometheus.NewRegistry(), ""), nil, &live.Views{Latest: &live.Latest{}, Now: time.Now}, &leadership{alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.close)
	for _, e := range []*endpoint{&srv.metrics, &srv.health, &srv.debug} {
		if e.ReadHeaderTimeout == 0 || e.ReadTimeout == 0 || e.WriteTimeout == 0 {
			t.Errorf("%s waits for ever for whoever does not write or read", e.address())
		}
	}
}

func TestAPortThatIsTakenIsNamedByItsFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	if _, err := serve(&Settings{EnableProfiling: true, DebugPort: port}, observe.NewScrape(prometheus.NewRegistry(), ""), nil, &live.Views{Latest: &live.Latest{}, Now: time.Now}, &leadership{alone: true}); err == nil || !strings.Contains(err.Error(), "--debug-port") {
		t.Errorf("error %v, want --debug-port in it", err)
	}
}
