package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit/session"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

// event is one message of a stream.
type event struct {
	id   string
	data struct {
		Rev, From string
		Reset     bool
		Nodes     [][]any
		Gone      []string
	}
}

// reader follows a stream in memory: what is written to it can be read, or blocks for ever.
type reader struct {
	header  http.Header
	pipe    *io.PipeWriter
	lines   *bufio.Scanner
	status  atomic.Int64
	written atomic.Int64
	stop    context.CancelFunc
	done    chan struct{}
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(s int)   { r.status.Store(int64(s)) }
func (r *reader) Flush()              {}
func (r *reader) Write(b []byte) (int, error) {
	r.written.Add(int64(len(b)))
	return r.pipe.Write(b)
}
func (r *reader) SetWriteDeadline(time.Time) error { return nil }

// follow reads a stream from a revision on.
func follow(t *testing.T, h http.Handler, since, lastEventID string) *reader {
	t.Helper()
	from, to := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	r := &reader{header: http.Header{}, pipe: to, lines: bufio.NewScanner(from), stop: stop, done: make(chan struct{})}
	r.lines.Buffer(nil, 1<<20)
	request := httptest.NewRequest(http.MethodGet, live.Path+"/stream?since="+since, http.NoBody).WithContext(ctx)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	go func() {
		h.ServeHTTP(r, request)
		_ = to.Close()
		close(r.done)
	}()
	return r
}

// next returns the next message.
func (r *reader) next(t *testing.T) (e event) {
	t.Helper()
	for r.lines.Scan() {
		line := r.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.id = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e.data); err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatal("the stream has ended")
	return e
}

// end lets a reader go, and waits until it has.
func (r *reader) end() {
	r.stop()
	for r.lines.Scan() {
	}
	<-r.done
}

func revisionOf(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, live.Path+"/map", http.NoBody))
	var m struct {
		Rev   string
		Nodes [][]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || len(m.Nodes) == 0 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return m.Rev
}

func TestAStreamSaysWhatHasChangedAndResumes(t *testing.T) {
	t.Parallel()
	s := session.New(t, 20)
	synctest.Test(t, func(t *testing.T) {
		h := (&live.Views{Latest: s.Latest, Now: time.Now}).Handler() //nolint:forbidigo // the clock of the bubble
		since := revisionOf(t, h)
		r := follow(t, h, since, "")
		time.Sleep(3 * time.Second) //nolint:forbidigo // the clock of the bubble
		s.Change(0, 2)
		first := r.next(t)
		if len(first.data.Nodes) != 2 || first.data.From != since || first.data.Rev != first.id || first.data.Reset {
			t.Errorf("two nodes changed: %+v", first)
		}
		r.end()
		for i := range 5 {
			s.Change(2+i, 1)
			time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
		}
		r = follow(t, h, since, first.id)
		second := r.next(t)
		if len(second.data.Nodes) != 5 || second.data.From != first.id {
			t.Errorf("five nodes changed while nobody read: %+v", second)
		}
		r.end()
		for _, unknown := range []string{"", "other-1", strings.Split(first.id, "-")[0] + "-99", "x"} {
			r = follow(t, h, unknown, "")
			if e := r.next(t); !e.data.Reset || e.id != second.id {
				t.Errorf("since %q: %+v", unknown, e)
			}
			r.end()
		}
		s.Change(0, 20)
		s.Change(0, 20) // and back
		r = follow(t, h, second.id, "")
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of the bubble
		r.end()
		if text := r.lines.Text(); strings.HasPrefix(text, "data") {
			t.Errorf("nothing differs, and the stream says %s", text)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
	})
}

func TestViewsForStreamsAreMadeOnceASecondForAllAndNeverForNobody(t *testing.T) {
	t.Parallel()
	s := session.New(t, 20)
	m := &counting{}
	synctest.Test(t, func(t *testing.T) {
		h := (&live.Views{Latest: s.Latest, Now: time.Now}).Handler() //nolint:forbidigo // the clock of the bubble
		s.Latest.Begin(m)
		s.Decide()
		since := revisionOf(t, h)
		for range 100 {
			s.Change(0, 1)
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the clock of the bubble
		}
		if m.asked.Load() != 1 {
			t.Errorf("views were made %d times for one reader of the map", m.asked.Load())
		}
		var readers []*reader
		for range 10 {
			readers = append(readers, follow(t, h, since, ""))
		}
		for range 100 {
			s.Change(0, 1)
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the clock of the bubble
		}
		if m.asked.Load() > 13 {
			t.Errorf("views were made %d times within ten seconds for ten readers", m.asked.Load())
		}
		made := m.asked.Load()
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of the bubble
		if m.asked.Load() > made+1 {
			t.Errorf("views were made %d times while nothing was handed in", m.asked.Load()-made)
		}
		for _, r := range readers {
			r.end()
		}
		// What goes on after this, the bubble reports.
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
	})
}

func TestALargeChangeAsksForTheMapAgain(t *testing.T) {
	t.Parallel()
	s := session.New(t, 300)
	synctest.Test(t, func(t *testing.T) {
		h := (&live.Views{Latest: s.Latest, Now: time.Now}).Handler() //nolint:forbidigo // the clock of the bubble
		r := follow(t, h, revisionOf(t, h), "")
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
		s.Change(0, 300)
		if e := r.next(t); !e.data.Reset || len(e.data.Nodes) != 0 {
			t.Errorf("300 nodes changed: reset %v, %d nodes", e.data.Reset, len(e.data.Nodes))
		}
		r.end()
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
	})
}

func TestTheRingIsBounded(t *testing.T) {
	t.Parallel()
	s := session.New(t, 5)
	synctest.Test(t, func(t *testing.T) {
		h := (&live.Views{Latest: s.Latest, Now: time.Now}).Handler() //nolint:forbidigo // the clock of the bubble
		r := follow(t, h, revisionOf(t, h), "")
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
		var first, last event
		for i := range 301 {
			if i%200 == 199 { // before the connection ends by itself
				r.end()
				r = follow(t, h, last.id, "")
			}
			s.Change(0, 1)
			last = r.next(t)
			if i == 0 {
				first = last
			}
		}
		r.end()
		for since, reset := range map[string]bool{first.id: false, first.data.From: true} {
			r = follow(t, h, since, "")
			if e := r.next(t); e.data.Reset != reset {
				t.Errorf("since %s, of messages up to %s: %+v", since, last.id, e)
			}
			r.end()
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
	})
}

func TestReadersAreBoundedAndASlowOneHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := session.New(t, 20)
	srv := httptest.NewServer((&live.Views{Latest: s.Latest, Now: time.Now}).Handler()) //nolint:forbidigo // deadlines are real
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ask := func() *http.Response {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+live.Path+"/stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var all sync.WaitGroup
	for range 32 { // nobody reads what these are sent
		if answer := ask(); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s %v", answer.Status, answer.Header)
		} else {
			all.Go(func() { <-ctx.Done(); _ = answer.Body.Close() })
		}
	}
	answer := ask()           // if that is a stream, it has no end
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("the 33rd reader: %s %v", answer.Status, answer.Header)
	} else if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), "32 readers") {
		t.Errorf("the 33rd reader: %s %v", body, err)
	}
	cancel()
	all.Wait()
}

// TestASlowReaderIsDropped has a reader that takes nothing: its write fails at the deadline.
func TestASlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	s := session.New(t, 20)
	synctest.Test(t, func(t *testing.T) {
		h := (&live.Views{Latest: s.Latest, Now: time.Now}).Handler() //nolint:forbidigo // the clock of the bubble
		w := &stuck{header: http.Header{}}
		began := time.Now() //nolint:forbidigo // the clock of the bubble
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, live.Path+"/stream", http.NoBody).WithContext(t.Context()))
		if took := time.Since(began); took < time.Second || took > 30*time.Second { //nolint:forbidigo // the clock of the bubble
			t.Errorf("it was dropped after %s", took)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the clock of the bubble
	})
}

// stuck never takes anything, until its deadline.
type stuck struct {
	header   http.Header
	deadline time.Time
}

func (s *stuck) Header() http.Header                 { return s.header }
func (s *stuck) WriteHeader(int)                     {}
func (s *stuck) Flush()                              {}
func (s *stuck) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }
func (s *stuck) Write([]byte) (int, error) {
	time.Sleep(time.Until(s.deadline)) //nolint:forbidigo // the clock of the bubble
	return 0, fmt.Errorf("deadline %s", s.deadline)
}
