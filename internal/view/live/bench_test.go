package live_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit/session"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// follower asks for what a page asks for, on a clock of its own.
type follower struct {
	session *session.Session
	handler http.Handler
	now     time.Time
	// at is the revision that the page has.
	at string
}

func newFollower(tb testing.TB, nodes int) *follower {
	tb.Helper()
	f := &follower{session: session.New(tb, nodes), now: time.Unix(1e9, 0), at: "none"}
	f.handler = (&live.Views{Latest: f.session.Latest, Now: func() time.Time { return f.now }}).Handler()
	return f
}

// ask returns how many bytes an answer has, as it goes over the wire.
func (f *follower) ask(tb testing.TB, path string) int {
	tb.Helper()
	w := httptest.NewRecorder()
	ctx, cancel := context.WithCancel(tb.Context())
	cancel() // the stream says what there is, and ends
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, live.Path+path, http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	f.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		tb.Fatal(w.Body)
	}
	if ids := eventID.FindAllStringSubmatch(w.Body.String(), -1); len(ids) > 0 {
		f.at = ids[len(ids)-1][1]
	}
	return w.Body.Len()
}

var eventID = regexp.MustCompile(`(?m)^id: (.*)$`)

// follow lets a second pass, and returns how many bytes the stream sends for it.
func (f *follower) follow(tb testing.TB) int {
	tb.Helper()
	f.now = f.now.Add(time.Second)
	return f.ask(tb, "/stream?since="+f.at)
}

// changes are what happens in a second: nothing, a loop hands in the same cluster, eight nodes change (500 a minute).
func (f *follower) changes() map[string]func(i int) {
	return map[string]func(i int){"still": func(int) {}, "idle": func(int) { f.session.Idle() }, "storm": func(i int) { f.session.Change(i*8, 8) }}
}

// TestTheStreamIsSmall follows 500 nodes for ten seconds, at rest and in a storm of a change a second: BenchmarkFollow measures ten
// times as many.
func TestTheStreamIsSmall(t *testing.T) {
	t.Parallel()
	const seconds = 10
	for name, most := range map[string]int{"idle": 400, "storm": 6 << 10} {
		f := newFollower(t, 500)
		f.follow(t)
		sent := 0
		for i := range seconds {
			if name == "idle" {
				f.session.Idle()
			} else {
				f.session.Change(i, 1)
			}
			sent += f.follow(t)
		}
		t.Logf("%s: %d bytes a second", name, sent/seconds)
		if sent/seconds > most {
			t.Errorf("%s: %d bytes a second, want at most %d", name, sent/seconds, most)
		}
	}
}

// BenchmarkFollow measures, at 5,000 nodes and 100,000 pods, what a second costs with a reader of the stream, and how
// many bytes it is sent; and what the map and its workloads cost a reader who comes.
func BenchmarkFollow(b *testing.B) {
	f := newFollower(b, 5000)
	f.ask(b, "/map")
	for name, change := range f.changes() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			f.follow(b)
			sent, seconds := 0, 0
			for i := 0; b.Loop(); i++ {
				change(i)
				sent += f.follow(b)
				seconds++
			}
			b.ReportMetric(float64(sent)/float64(seconds), "B/s")
		})
	}
	for _, path := range []string{"/map", "/map?groups=true"} {
		b.Run(path, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = f.ask(b, path)
			}
			b.ReportMetric(float64(size), "B")
		})
	}
}

// BenchmarkPageOpen measures, at the same size, how much more memory the process has after a minute with a page open
// than after one without, and what a second of it costs while the cluster is at rest.
func BenchmarkPageOpen(b *testing.B) {
	const seconds = 60
	for b.Loop() {
		f := newFollower(b, 5000)
		minute := func(each func()) float64 {
			debug.FreeOSMemory()
			for i := range seconds {
				f.session.Change(i*8, 8)
				each()
			}
			return memoryInUse(b)
		}
		closed := minute(func() {})
		f.ask(b, "/map")
		f.ask(b, "/map?groups=true")
		open := minute(func() { f.follow(b) })
		const each = 10 * time.Second // so often a loop decides that there is nothing to do, as Idle does
		start := time.Now()           //nolint:forbidigo // a benchmark measures it
		for range seconds {
			f.session.Idle()
			f.follow(b)
		}
		b.ReportMetric(float64(time.Since(start))/float64(seconds*each)*100, "%-core-idle") //nolint:forbidigo // a benchmark measures it
		b.ReportMetric(open-closed, "MB-more")
		b.ReportMetric(closed, "MB-closed")
	}
}

// memoryInUse returns how much memory the process has, in MB.
func memoryInUse(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("this system does not say how much memory a process has")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}
