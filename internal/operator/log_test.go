package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

func TestAReconcilerDoesNotLogAnAPIServerThatIsAway(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		message string
		err     error
		said    bool
	}{
		"it is away":           {"Reconciler error", fmt.Errorf("patch claim: %w", refused), false},
		"it says no":           {"Reconciler error", errors.New("forbidden"), true},
		"somebody else is":     {"could not collect", refused, true},
		"there is no error":    {"Reconciler error", nil, true},
		"a lease is not there": {"Error retrieving lease lock", refused, false},
	} {
		var out bytes.Buffer
		log := logr.FromSlogHandler(dedupHandler(slog.NewTextHandler(&out, nil)))
		log.Error(c.err, c.message)
		if said := strings.Contains(out.String(), c.message); said != c.said {
			t.Errorf("%s: said %v, want %v", name, said, c.said)
		}
	}
}

// TestAttributesOfALibrarysLogger: what a logger was given is in its lines, in order and in its groups.
func TestAttributesOfALibrarysLogger(t *testing.T) {
	t.Parallel()
	var out, want bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	for log, h := range map[*bytes.Buffer]slog.Handler{&out: dedupHandler(slog.NewTextHandler(&out, options)), &want: slog.NewTextHandler(&want, options)} {
		l := slog.New(h).With("a", 1)
		l.With("b", 2).Error("first")
		l.With("b", 3).WithGroup("g").With("c", 4).Error("second", "d", 5)
		l.Error("third")
		if log.Len() == 0 {
			t.Error("nothing is written")
		}
	}
	if out.String() != want.String() {
		t.Errorf("the lines are\n%s, not\n%s", &out, &want)
	}
}

// TestBodiesAreNeverLogged: what client-go says at its most talkative holds whole objects,
// with all that their owners wrote into them.
func TestBodiesAreNeverLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logr.FromSlogHandler(dedupHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.V(4).Info("GET https://…")
	log.V(8).Info("Response Body", "body", "a secret")
	if got := out.String(); !strings.Contains(got, "GET https") || strings.Contains(got, "a secret") {
		t.Errorf("the log of somebody who debugs is\n%s", got)
	}
}

// TestLinesAreShapedAsKarpenters: parsers of its logs know four levels, and no path of who built us.
func TestLinesAreShapedAsKarpenters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, closeLog, err := NewLogger(&Settings{LogLevel: "debug", LogOutputPaths: "stdout"}, &out, io.Discard, "abc")
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	for _, level := range []slog.Level{slog.LevelDebug + 1, slog.LevelDebug, slog.LevelInfo, slog.LevelInfo + 2, slog.LevelWarn, slog.LevelError, slog.LevelError + 3} {
		log.LogAttrs(t.Context(), level, "launched nodeclaim", observe.Named("NodeClaim", "a"), observe.Named("Node", ""))
	}
	var levels []string
	for text := range strings.Lines(out.String()) {
		var line struct {
			Level, Time, Logger, Message, Caller, Commit string
			NodeClaim                                    struct{ Name string }
			Node                                         any
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		levels = append(levels, line.Level)
		if line.Logger != "controller" || line.Message != "launched nodeclaim" || line.Commit != "abc" || line.NodeClaim.Name != "a" || line.Node != nil ||
			!strings.HasPrefix(line.Caller, "operator/log_test.go:") {
			t.Errorf("the line is %s", text)
		}
	}
	if got := strings.Join(levels, " "); got != strings.Repeat("DEBUG ", 2)+strings.Repeat("INFO ", 2)+"WARN"+strings.Repeat(" ERROR", 2) {
		t.Errorf("levels are %s", got)
	}
}

// TestALineHasOneMessage: of two keys alike, readers of JSON take the last.
func TestALineHasOneMessage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: karpenterKeys})).With("logger", "controller").Info("deleted claim", "message", "why", "logger", "cache")
	var line map[string]string
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["message"] != "deleted claim" || line["detail"] != "why" || line["logger"] != "controller" || line["library"] != "cache" {
		t.Errorf("the line is %s", out.String())
	}
}

// TestConsoleLinesAreForPeople: time, level and message first, no key twice, and no key that is only for parsers.
func TestConsoleLinesAreForPeople(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, closeLog, err := NewLogger(&Settings{LogFormat: "console", LogOutputPaths: "stdout"}, &out, io.Discard, "abc")
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog()
	log = log.With("controller", "provisioner")
	observe.Logged(log, observe.LogCreated, observe.Named("NodeClaim", "a"), "claim", "a", "took", 1500*time.Millisecond, "why", "two words")
	log.Debug("left out")
	log.Warn("no keys but the controller's")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d\d\d INFO  created nodeclaim  controller=provisioner claim=a took=1.5s why="two words"
\d\d:\d\d:\d\d\.\d\d\d WARN  no keys but the controller's  controller=provisioner
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("the log is\n%s", out.String())
	}
}

// TestAnOutputThatCannotBeWrittenIsReported once until it can be, and the others get every line.
func TestAnOutputThatCannotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	full := &fullDisk{times: 2}
	s := &sinks{outputs: []namedWriter{{"/logs/a", full}, {"stdout", &out}}, errors: []namedWriter{{"stderr", &errs}}, failing: map[string]bool{}}
	log := slog.New(slog.NewJSONHandler(s, nil))
	for range 3 {
		log.Info("line")
	}
	full.times = 1
	log.Info("line")
	const said = "the log cannot be written to /logs/a: no space left on device\n"
	if got := errs.String(); got != said+said {
		t.Errorf("error outputs have %q, want %q twice", got, said)
	}
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("the other output has %d lines, want 4", got)
	}
}

// fullDisk is a writer that fails some times.
type fullDisk struct{ times int }

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.times > 0 {
		f.times--
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

func TestAnErrorOutputThatCannotBeOpenedIsAnError(t *testing.T) {
	t.Parallel()
	_, _, err := NewLogger(&Settings{LogOutputPaths: "stdout", LogErrorOutputPaths: "/no/such/directory/log"}, io.Discard, io.Discard, "")
	if err == nil || !strings.Contains(err.Error(), "--log-error-output-paths") {
		t.Errorf("the error is %v", err)
	}
}
