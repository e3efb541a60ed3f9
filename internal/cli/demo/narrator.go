package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// narrator writes the story: lines with the seconds since the beginning and one word for
// what kind of line it is. It is for one goroutine.
type narrator struct {
	out   io.Writer
	now   func() time.Time
	began time.Time
	// last is when the last line was written, since began.
	last time.Duration
}

func (t *narrator) elapsed() time.Duration { return t.now().Sub(t.began) }

func (t *narrator) line(kind, format string, args ...any) {
	t.last = t.elapsed()
	_, _ = fmt.Fprintf(t.out, "%6.1fs  %-7s  %s\n", t.last.Seconds(), kind, fmt.Sprintf(format, args...))
}

// more continues the line before.
func (t *narrator) more(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, "%18s%s\n", "", fmt.Sprintf(format, args...))
}

func (t *narrator) plain(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format+"\n", args...)
}

// tailLines is how many lines a tail remembers.
const tailLines = 20

// tail is a writer that remembers the last lines written to it. Each write is whole lines.
type tail struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func newTail() *tail { return &tail{} }

// Write never fails.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")...)
	if extra := len(w.lines) - tailLines; extra > 0 {
		w.lines = append([]string(nil), w.lines[extra:]...)
	}
	return len(p), nil
}

// String returns the lines remembered.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}
