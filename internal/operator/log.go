package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// repeatAfter is how long a library's message is not repeated.
	repeatAfter = time.Minute
	// messagesMost bounds the memory of messages; beyond it all is forgotten and said again.
	messagesMost = 1000
)

// NewLogger returns the process's logger: to every path of --log-output-paths, JSON lines with the keys
// that Karpenter's logs have, or lines for people. Close the returned function at the end.
func NewLogger(s *Settings, stdout, stderr io.Writer, commit string) (*slog.Logger, func(), error) {
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	open := func(flag, paths string) (all []namedWriter, err error) {
		for path := range strings.SplitSeq(paths, ",") {
			switch path = strings.TrimSpace(path); path {
			case "":
			case "stdout":
				all = append(all, namedWriter{path, stdout})
			case "stderr":
				all = append(all, namedWriter{path, stderr})
			default:
				f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				if err != nil {
					return nil, fmt.Errorf("--%s: %w", flag, err)
				}
				files = append(files, f)
				all = append(all, namedWriter{path, f})
			}
		}
		return all, nil
	}
	outputs, err := open("log-output-paths", s.LogOutputPaths)
	var errorOutputs []namedWriter
	if err == nil {
		errorOutputs, err = open("log-error-output-paths", s.LogErrorOutputPaths)
	}
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	to := &sinks{outputs: outputs, errors: errorOutputs, failing: map[string]bool{}}
	level := slog.LevelInfo
	switch s.LogLevel {
	case "debug":
		level = slog.LevelDebug
	case "error":
		level = slog.LevelError
	}
	options := &slog.HandlerOptions{Level: level, AddSource: level == slog.LevelDebug, ReplaceAttr: karpenterKeys}
	if s.LogFormat == formatConsole {
		return slog.New(newConsole(to, options)), closeAll, nil
	}
	return slog.New(slog.NewJSONHandler(to, options)).With("logger", ourLogger, "commit", commit), closeAll, nil
}

// ourLogger is what each line has for its logger.
const ourLogger = "controller"

// karpenterKeys names the keys of a line as Karpenter does.
func karpenterKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case "message": // which the line has already
		a.Key = "detail"
	case "logger":
		if a.Value.String() != ourLogger { // the name of a library's
			a.Key = "library"
		}
	case slog.SourceKey:
		if src, ok := a.Value.Any().(*slog.Source); ok {
			dir, file := filepath.Split(src.File)
			return slog.String("caller", fmt.Sprintf("%s/%s:%d", filepath.Base(dir), file, src.Line))
		}
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(a.Key, levelName(level))
		}
	case slog.TimeKey:
		return slog.String(a.Key, a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	switch v := a.Value.Any().(type) {
	case time.Duration:
		return slog.String(a.Key, v.String())
	case error:
		return slog.String(a.Key, v.Error())
	}
	return a
}

// dedup is a handler for what libraries say: their small talk is left out unless we
// debug, and a complaint is not repeated within repeatAfter.
type dedup struct {
	slog.Handler
	// attrs are added to a line when it is written: a library gives them to a logger for each of its tasks, and writes
	// nothing about nearly all of these.
	attrs    []slog.Attr
	observed *observed
}

type observed struct {
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu
}

func dedupHandler(h slog.Handler) slog.Handler {
	return dedup{h, nil, &observed{last: map[string]time.Time{}}}
}

// Enabled leaves out what is below a warning, unless we debug. What is below that, as the
// bodies of requests and answers are, is never said.
func (q dedup) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, level) && (level >= slog.LevelWarn || q.Handler.Enabled(ctx, slog.LevelDebug))
}

// Handle leaves out repeats, and what we say ourselves.
func (q dedup) Handle(ctx context.Context, r slog.Record) error {
	if !q.Handler.Enabled(ctx, slog.LevelDebug) && (isEcho(r.Message) || isAway(r) || q.observed.again(r.Message, r.Time)) {
		return nil
	}
	return q.whole().Handle(ctx, r)
}

// whole returns the handler that adds the attributes.
func (q dedup) whole() slog.Handler {
	if len(q.attrs) == 0 {
		return q.Handler
	}
	return q.Handler.WithAttrs(q.attrs)
}

// isEcho reports whether a library's message adds nothing to our own "starting over" and
// "waiting for the cluster": a lease that cannot be renewed because the API server is
// away, the events that cannot be written about it, and the end of a term.
func isEcho(message string) bool {
	switch message {
	case "Error retrieving lease lock", "error retrieving resource lock",
		"Unable to write event (may retry after sleeping)", "Unable to write event (broadcaster is shut down)",
		"error received after stop sequence was engaged":
		return true
	}
	return false
}

// isAway reports whether a reconciler met an API server that is not there. It will try
// again, and the outage is logged once, as such, if it lasts.
func isAway(r slog.Record) bool {
	away := false
	r.Attrs(func(a slog.Attr) bool {
		err, isError := a.Value.Any().(error)
		away = away || isError && errors.Is(err, syscall.ECONNREFUSED)
		return !away
	})
	return away && r.Message == "Reconciler error"
}

// WithAttrs keeps the memory.
func (q dedup) WithAttrs(attrs []slog.Attr) slog.Handler {
	return dedup{q.Handler, slices.Concat(q.attrs, attrs), q.observed}
}

// WithGroup keeps the memory.
func (q dedup) WithGroup(name string) slog.Handler {
	return dedup{q.whole().WithGroup(name), nil, q.observed}
}

func (h *observed) again(message string, at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.last[message]; ok && at.Sub(last) < repeatAfter {
		return true
	}
	if len(h.last) >= messagesMost {
		clear(h.last)
	}
	h.last[message] = at
	return false
}
