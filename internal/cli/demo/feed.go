package demo

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// feedMost bounds what waits to be reported. It is far more than the story has.
const feedMost = 1000

// item is one thing that the controller logged.
type item struct {
	level   slog.Level
	message string
	fields  map[string]slog.Value
}

// text returns a field as it would be printed.
func (i item) text(key string) string { return i.fields[key].String() }

// number returns a field that is a whole number, else 0.
func (i item) number(key string) int64 {
	if v := i.fields[key]; v.Kind() == slog.KindInt64 {
		return v.Int64()
	}
	return 0
}

// names returns a field that is a list of names, else none.
func (i item) names(key string) []string {
	names, _ := i.fields[key].Any().([]string)
	return names
}

// price returns a field that is dollars, else 0.
func (i item) price(key string) float64 {
	if v := i.fields[key]; v.Kind() == slog.KindFloat64 {
		return v.Float64()
	}
	return 0
}

// duration returns a field that is a time span, else 0.
func (i item) duration(key string) time.Duration {
	if v := i.fields[key]; v.Kind() == slog.KindDuration {
		return v.Duration()
	}
	return 0
}

// feed is the controller's log handler: it hands everything on to the log file, and keeps
// for the story what take asks for.
type feed struct {
	slog.Handler
	waiting *waiting
}

type waiting struct {
	mu    sync.Mutex
	items []item // guarded by mu; oldest first
}

func newFeed(h slog.Handler) *feed { return &feed{h, &waiting{}} }

// Enabled reports whether a line is kept: decisions are, whatever the log file's level is.
func (n *feed) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle keeps decisions and errors.
func (n *feed) Handle(ctx context.Context, r slog.Record) error {
	if _, decision := phrases()[r.Message]; decision || r.Level >= slog.LevelError {
		i := item{level: r.Level, message: r.Message, fields: map[string]slog.Value{}}
		r.Attrs(func(a slog.Attr) bool {
			i.fields[a.Key] = a.Value.Resolve()
			return true
		})
		n.waiting.add(i)
	}
	return n.Handler.Handle(ctx, r)
}

// WithAttrs keeps on listening.
func (n *feed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &feed{n.Handler.WithAttrs(attrs), n.waiting}
}

// WithGroup keeps on listening.
func (n *feed) WithGroup(name string) slog.Handler {
	return &feed{n.Handler.WithGroup(name), n.waiting}
}

// take returns what was kept since the last call.
func (n *feed) take() []item {
	n.waiting.mu.Lock()
	defer n.waiting.mu.Unlock()
	items := n.waiting.items
	n.waiting.items = nil
	return items
}

func (w *waiting) add(i item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.items) < feedMost {
		w.items = append(w.items, i)
	}
}

// phrases returns the kind of line for each message of the controller that is a decision.
func phrases() map[string]string {
	return map[string]string{
		observe.LogComputed: "plan", observe.LogCreated: "launch", "refused pods": "refuse", "removed node": "remove",
		"replacing claim before its interruption": "notice", observe.LogDisrupting: "replace",
	}
}
