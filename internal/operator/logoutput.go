package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Values of --log-format.
const (
	formatJSON    = "json"
	formatConsole = "console"
)

// namedWriter is one path of --log-output-paths or --log-error-output-paths.
type namedWriter struct {
	path string
	io.Writer
}

// sinks write each line to every output. That an output cannot be written is reported to the error
// outputs, once until it can be again.
type sinks struct {
	outputs, errors []namedWriter

	mu      sync.Mutex
	failing map[string]bool // guarded by mu; by path
}

// Write writes a line to every output, whatever becomes of the others.
func (s *sinks) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, out := range s.outputs {
		_, err := out.Write(line)
		if err != nil && !s.failing[out.path] {
			for _, to := range s.errors {
				fmt.Fprintf(to, "the log cannot be written to %s: %v\n", out.path, err)
			}
		}
		s.failing[out.path] = err != nil
	}
	return len(line), nil
}

// console is a handler that writes lines for people: time, level, message, then the rest as key=value.
// Objects are named by our own keys, so the ones that Karpenter's parsers need are left out.
type console struct {
	rest slog.Handler // writes key=value to line
	line *bytes.Buffer
	mu   *sync.Mutex // for line
	to   io.Writer
}

func newConsole(to io.Writer, options *slog.HandlerOptions) *console {
	line := &bytes.Buffer{}
	rest := *options
	rest.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return options.ReplaceAttr(groups, a)
	}
	return &console{rest: slog.NewTextHandler(line, &rest), line: line, mu: &sync.Mutex{}, to: to}
}

// Enabled asks for the level.
func (c *console) Enabled(ctx context.Context, level slog.Level) bool {
	return c.rest.Enabled(ctx, level)
}

// Handle writes one line.
func (c *console) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Reset()
	forPeople := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !isObject(a) {
			forPeople.AddAttrs(a)
		}
		return true
	})
	if err := c.rest.Handle(ctx, forPeople); err != nil {
		return err
	}
	text := fmt.Sprintf("%s %-5s %s", r.Time.UTC().Format("15:04:05.000"), levelName(r.Level), r.Message)
	_, err := fmt.Fprintln(c.to, strings.TrimSpace(text+"  "+strings.TrimSpace(c.line.String())))
	return err
}

// levelName returns one of the four names of levels that Karpenter's logs have.
func levelName(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "ERROR"
	case level >= slog.LevelWarn:
		return "WARN"
	case level >= slog.LevelInfo:
		return "INFO"
	default:
		return "DEBUG"
	}
}

// isObject reports whether an attribute names an object as observe.Named does.
func isObject(a slog.Attr) bool {
	if a.Value.Kind() != slog.KindGroup {
		return false
	}
	group := a.Value.Group()
	return len(group) == 1 && group[0].Key == "name"
}

// WithAttrs adds to every line.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *c
	with.rest = c.rest.WithAttrs(attrs)
	return &with
}

// WithGroup qualifies what is added from now on.
func (c *console) WithGroup(name string) slog.Handler {
	with := *c
	with.rest = c.rest.WithGroup(name)
	return &with
}
