package history_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/static"
	"github.com/dovetail-sh/dovetail/internal/decision/history"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
	"github.com/dovetail-sh/dovetail/internal/view"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/table"
)

// TestStories runs the stories in testdata: "cluster" describes one, in which $a is the command that removes
// node a; "provision after=1m", "disrupt after=1m" and "scale after=1m pool=x" let the core decide about it so
// long after the last decision, with claims=(a,b) for the launches and error=text for what went wrong.
// "decision 1" and "history" ask the journal of all that; with plans alone if that is said.
func TestStories(t *testing.T) {
	time.Local = time.UTC
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &stage{at: story.Now(), commands: map[string]string{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				text := d.Input
				for node, id := range s.commands {
					text = strings.ReplaceAll(text, "$"+node, id)
				}
				var err error
				if s.snap, err = story.Parse(text); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "provision", "disrupt", "scale":
				s.decide(t, d)
				return ""
			case "decision":
				return s.decision(t, d)
			default:
				return s.history(t, d)
			}
		})
	})
}

type stage struct {
	at        time.Time
	snap      *cluster.Snapshot
	decisions []*record.Decision
	commands  map[string]string
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	text := "0s"
	d.MaybeScanArgs(t, key, &text)
	passed, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return passed
}

func (s *stage) decide(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	s.at = s.at.Add(duration(t, d, "after"))
	snap := *s.snap
	snap.At = s.at
	decision := &record.Decision{Loop: record.Provisioning, Snapshot: &snap, Took: 3 * time.Millisecond}
	switch d.Cmd {
	case "provision":
		decision.Plan = pack.Decide(&snap, decision.Pack)
	case "disrupt":
		decision.Loop, decision.Disrupt.Repair = record.Disruption, disrupt.Repair{On: true, CanReboot: true}
		decision.Disruption, _ = disrupt.Propose(&snap, decision.Memory, decision.Disrupt)
	default:
		pool := ""
		d.ScanArgs(t, "pool", &pool)
		decision.Loop, decision.Scaling, decision.Snapshot = record.Static, static.Next(&snap, pool), static.Part(&snap, pool)
	}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "claims":
			decision.Claims = arg.Vals
		case "error":
			decision.Error = strings.Join(arg.Vals, " ")
		}
	}
	for _, c := range decision.Disruption.Commands {
		for _, r := range c.Remove {
			s.commands[r.Node] = c.ID
		}
	}
	s.decisions = append(s.decisions, decision)
}

// journal returns a journal that was given the decisions.
func (s *stage) journal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{
		MemoryBytes: 1 << 30, Version: "test", Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range s.decisions {
		j.Add(d, journal.ID{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	return j
}

// read returns the journal of the decisions, or their plans alone.
func (s *stage) read(t *testing.T, plansOnly bool) *journal.File {
	t.Helper()
	j := s.journal(t)
	var b bytes.Buffer
	var err error
	if plansOnly {
		err = j.WritePlans(&b)
	} else {
		err = j.WriteFile(&b, journal.ID{})
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := journal.ReadFrom(&b, "journal")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *stage) decision(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	id, err := journal.ParseID(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	v, err := history.DecisionOf(s.read(t, d.HasArg("plans")), id, nil)
	if errors.Is(err, journal.ErrNoDecision) {
		return err.Error() + "\n"
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return s.draw(t, d, &v)
}

func (s *stage) history(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	wanted := &history.Filter{All: d.HasArg("all")}
	if d.HasArg("since") {
		wanted.Since = s.at.Add(-duration(t, d, "since"))
	}
	if d.HasArg("until") {
		wanted.Until = s.at.Add(-duration(t, d, "until"))
	}
	reason := ""
	d.MaybeScanArgs(t, "pool", &wanted.Pool)
	d.MaybeScanArgs(t, "namespace", &wanted.Namespace)
	if d.MaybeScanArgs(t, "reason", &reason) {
		wanted.Reasons = history.Reasons(reason)
	}
	v, err := history.Of(s.read(t, true), wanted)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if v.Prices != nil && !d.HasArg("price") {
		v.Prices.Points = nil
	}
	return s.draw(t, d, &v)
}

func (s *stage) draw(t *testing.T, d *datadriven.TestData, v any) string {
	t.Helper()
	var b strings.Builder
	if err := table.Write(&b, v, table.Options{Wide: d.HasArg("wide"), Now: s.at}); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return b.String()
}

func TestReasonsAreKnownByTheirWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"drift": "Drifted", "DRIFTED": "Drifted", "consolidation": "Underutilized Empty", "static": "static", "nonsense": ""} {
		if got := strings.Join(history.Reasons(word), " "); got != want {
			t.Errorf("Reasons(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestALiveJournalIsAnsweredFromAsItsFile asks a journal in memory and its file the same.
func TestALiveJournalIsAnsweredFromAsItsFile(t *testing.T) {
	t.Parallel()
	s := &stage{at: story.Now()}
	for _, cpu := range []string{"1", "2", "3"} {
		snap, err := story.Parse("type four cpu=4 memory=8Gi price=0.20\npool general\npod a cpu=" + cpu)
		if err != nil {
			t.Fatal(err)
		}
		snap.At = s.at
		s.decisions = append(s.decisions, &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Decide(snap, pack.Options{}), Claims: []string{"general-" + cpu}})
		s.at = s.at.Add(time.Hour)
	}
	l := &history.Live{Journal: s.journal(t), Now: func() time.Time { return s.at }}
	file := s.read(t, false)
	since := story.Now().Add(30 * time.Minute)
	want, err := history.Of(file, &history.Filter{Since: since})
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.History(since, "provisioning", "general")
	if err != nil || len(got.Actions) == 0 || len(got.Actions) != len(want.Actions) || got.Actions[0].At != want.Actions[0].At {
		t.Errorf("History() = %+v, %v, want %+v", got, err, want)
	}
	one, err := l.Decision("2")
	if err != nil || !one.HasSnapshot || one.At != story.Now().Add(time.Hour) || len(one.Actions) == 0 {
		t.Errorf("Decision() = %+v, %v", one, err)
	}
	said, err := l.Explain("pod a", false)
	if err != nil || len(said) != 1 || len(said[0].Says) == 0 || said[0].Says[0].Decision == "" {
		t.Errorf("Explain() = %+v, %v", said, err)
	}
	kept := &history.Kept{File: file, Lock: &sync.Mutex{}}
	if read, err := kept.Explain("pod/a", false); err != nil || len(read) != 1 || !cmp.Equal(read[0].Says, said[0].Says) {
		t.Errorf("Explain() of the file = %+v, %v, want %+v", read, err, said)
	}
	for what, past := range map[string]interface {
		Explain(asked string, types bool) ([]view.Explained, error)
	}{"the journal": l, "its file": kept} {
		one, err := past.Explain("nodeclaim general-3", true)
		if err != nil || len(one) != 1 || !one[0].IsLaunch || one[0].Ranking == nil || len(one[0].Ranking.Rows) == 0 || one[0].Ranking.Rows[0][1] != "four" || one[0].Ranking.Fault != "" {
			t.Errorf("of %s: types of a NodeClaim: %+v, %v", what, one, err)
		}
		if one, err := past.Explain("nodeclaim general-3", false); err != nil || !one[0].IsLaunch || one[0].Ranking != nil {
			t.Errorf("of %s: what was not asked for: %+v, %v", what, one, err)
		}
		if one, err := past.Explain("pod a", true); err != nil || one[0].IsLaunch || one[0].Ranking != nil {
			t.Errorf("of %s: types of a pod: %+v, %v", what, one, err)
		}
	}
	if _, err := l.Explain("a b c", false); err == nil || errors.Is(err, live.ErrUnknown) {
		t.Errorf("of what is no subject Explain() says %v", err)
	}
	for what, ask := range map[string]func() error{
		"nobody":                      func() error { _, err := l.Explain("pod/nobody", false); return err },
		"a decision that is not kept": func() error { _, err := l.Decision("99"); return err },
		"no ID":                       func() error { _, err := l.Decision("<script>"); return err },
		"no reason":                   func() error { _, err := l.History(since, "nonsense", ""); return err },
	} {
		if err := ask(); !errors.Is(err, live.ErrUnknown) {
			t.Errorf("%s: %v, want one of %v", what, err, live.ErrUnknown)
		}
	}
}
