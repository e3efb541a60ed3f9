package journal

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// fleetJournal returns a journal with so many decisions about a fleet.
func fleetJournal(t testing.TB, f *fleet, memory int64, decisions int) *Journal {
	t.Helper()
	j, err := Open(Options{MemoryBytes: memory, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	for range decisions {
		j.takeNow(f.next())
	}
	return j
}

// TestADecisionCostsWhatHasChanged keeps decisions about 500 nodes with 10,000 pods, between which a pod of one
// node in a hundred changes: BenchmarkFleet measures ten times as many.
func TestADecisionCostsWhatHasChanged(t *testing.T) {
	t.Parallel()
	f := newFleet(500)
	j := fleetJournal(t, f, 16<<20, 1)
	first := j.pieces.bytes + j.bytes
	const more = 50
	for range more {
		j.takeNow(f.next())
	}
	each := (j.pieces.bytes + j.bytes - first) / more
	t.Logf("the first takes %d bytes, each of the others %d", first, each)
	if first > 2<<20 || each > 6<<10 {
		t.Errorf("the first decision takes %d bytes, want at most 2 MiB; each of the others %d, want at most 6 KiB", first, each)
	}
	if len(j.kept) != more+1 || slices.ContainsFunc(j.kept, func(k *kept) bool { return k.head.NoSnapshot }) {
		t.Errorf("%d decisions are kept, want %d with their snapshots", len(j.kept), more+1)
	}
}

// TestAnAnswerIsAboutItsSubjectAlone asks about nodes and pods of the same fleet, over HTTP.
//
//nolint:paralleltest // it counts allocations
func TestAnAnswerIsAboutItsSubjectAlone(t *testing.T) {
	f := newFleet(500)
	j := fleetJournal(t, f, 16<<20, 30)
	h := j.Handler()
	for _, s := range []Subject{{Kind: KindNode, Name: f.snap.Nodes[7].Name}, {Kind: KindClaim, Name: f.snap.Nodes[8].Claim}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, explainPath(s), nil))
		if w.Code != http.StatusOK || w.Body.Len() > 4<<10 {
			t.Errorf("the answer about %s has status %d and %d bytes, want at most 4 KiB", s, w.Code, w.Body.Len())
		}
		if n := testing.AllocsPerRun(10, func() { j.Explain(s) }); n > 500 {
			t.Errorf("the answer about %s takes %.0f allocations: it depends on what is there", s, n)
		}
	}
}

func explainPath(s Subject) string {
	return Path + ExplainPath + "?" + url.Values{"kind": {s.Kind}, "name": {s.Name}}.Encode()
}

// BenchmarkAsk asks a journal of 300 decisions about 5,000 nodes and 100,000 pods over HTTP, one connection a
// question, and prints how long the slowest of a hundred takes and how large an answer is.
func BenchmarkAsk(b *testing.B) {
	f := newFleet(5000)
	j := fleetJournal(b, f, 16<<20, 300)
	server := httptest.NewServer(j.Handler())
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var took []time.Duration
	largest := 0
	for i := 0; b.Loop(); i++ {
		start := time.Now() //nolint:forbidigo // a benchmark measures it
		answer, err := client.Get(server.URL + explainPath(Subject{Kind: KindNode, Name: f.snap.Nodes[i*37%len(f.snap.Nodes)].Name}))
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("status %d, %v", answer.StatusCode, err)
		}
		took, largest = append(took, time.Since(start)), max(largest, len(body)) //nolint:forbidigo // a benchmark measures it
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(largest), "B-answer")
	b.ReportMetric(float64(len(j.kept)), "decisions")
}

// BenchmarkLeaderChange measures how long a replica that begins to lead takes to explain a node of 5,000 by 300
// decisions that another one left in the directory that they share, and to unpack the newest of them.
func BenchmarkLeaderChange(b *testing.B) {
	f := newFleet(5000)
	opts := Options{MemoryBytes: 16 << 20, Dir: b.TempDir(), DiskBytes: 256 << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}}
	killed, err := Open(opts)
	if err != nil {
		b.Fatal(err)
	}
	for range 300 {
		killed.takeNow(f.next())
	}
	for b.Loop() {
		next, err := Open(opts)
		if err != nil {
			b.Fatal(err)
		}
		if a := next.Explain(Subject{Kind: KindNode, Name: f.snap.Nodes[7].Name}); len(a) != 1 {
			b.Fatalf("the node is explained by %+v", a)
		}
		if err := next.WriteFile(io.Discard, killed.kept[len(killed.kept)-1].head.ID); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(next.kept)), "decisions")
	}
}
