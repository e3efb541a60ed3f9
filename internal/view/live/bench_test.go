package live_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit/session"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// BenchmarkFollow measures, at 5,000 nodes and 100,000 pods, what a second costs with readers of the stream:
// idle when a loop handed in the same cluster, storm when eight nodes have changed (500 a minute); and
// what the map and its workloads cost a reader who comes.
func BenchmarkFollow(b *testing.B) {
	s, now := session.New(b, 5000), time.Unix(1e9, 0)
	h := (&live.Views{Latest: s.Latest, Now: func() time.Time { return now }}).Handler()
	ask := func(b *testing.B, path string) int {
		w := httptest.NewRecorder()
		ctx, cancel := context.WithCancel(b.Context())
		cancel() // the stream says what there is, and ends
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, live.Path+path, http.NoBody)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		return w.Body.Len()
	}
	ask(b, "/map")
	for name, change := range map[string]func(i int){"still": func(int) {}, "idle": func(int) { s.Idle() }, "storm": func(i int) { s.Change(i*8, 8) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(time.Second)
				change(i)
				ask(b, "/stream?since=none")
			}
		})
	}
	for _, path := range []string{"/map", "/map?groups=true"} {
		b.Run(path, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = ask(b, path)
			}
			b.ReportMetric(float64(size), "B")
		})
	}
}
