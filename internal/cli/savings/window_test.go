package savings

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// windowStep is a cluster, and the names of the NodeClaims that its launches become.
type windowStep struct {
	cluster string
	claims  []string
}

// windowJournal has provisioning decide about each step, a minute after the one before.
func windowJournal(t *testing.T, steps []windowStep) *journal.File {
	t.Helper()
	j, err := journal.Open(journal.Options{MemoryBytes: 1 << 24, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		snap, err := story.Parse(step.cluster)
		if err != nil {
			t.Fatal(err)
		}
		snap.At = story.Now().Add(time.Duration(i) * time.Minute)
		d := &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Decide(snap, pack.Options{}), Claims: step.claims}
		if len(d.Plan.Launches) != len(step.claims) {
			t.Fatalf("step %d launches %d nodes, want %d", i, len(d.Plan.Launches), len(step.claims))
		}
		j.Add(d, journal.ID{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	var b bytes.Buffer
	if err := j.WriteFile(&b, journal.ID{}); err != nil {
		t.Fatal(err)
	}
	file, err := journal.ReadFrom(&b, "journal")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const windowTypes = "type four cpu=4 memory=8Gi price=0.20\ntype eight cpu=8 memory=16Gi price=0.36\npool general\n"

// TestAWindow has two pods come one after the other. Each gets a node of 4 cpu, of which one comes as 8 cpu; one node of 8 cpu has room for both.
func TestAWindow(t *testing.T) {
	t.Parallel()
	file := windowJournal(t, []windowStep{
		{windowTypes + "pod web cpu=3", []string{"general-a"}},
		{windowTypes + "node a pool=general type=eight claim=general-a used.cpu=6\npod huge cpu=100\npod db cpu=4", []string{"general-b"}},
		{windowTypes + "node a pool=general type=eight claim=general-a used.cpu=3\nnode b pool=general type=four claim=general-b used.cpu=4\npod huge cpu=100\npod late cpu=1", nil},
	})
	w, err := MakeWindow(file, "journal", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for what, is := range map[string][2]float64{
		"as launched": {w.Now, 0.56}, "as planned": {w.Planned, 0.40}, "all at once": {w.After, 0.36},
	} {
		if math.Abs(is[0]-is[1]) > 1e-9 {
			t.Errorf("%s: %.4f, want %.4f\n%s", what, is[0], is[1], w.Table())
		}
	}
	if w.Bound > w.After+1e-9 || w.Bound <= 0 || w.BoundEach > w.Planned+1e-9 || w.BoundEach <= 0 {
		t.Errorf("least %.4f at once and %.4f one by one\n%s", w.Bound, w.BoundEach, w.Table())
	}
	if w.Pods != 4 || w.Launched != 2 || w.Placed != 1 || w.Refused != 1 || w.Nodes != 2 || w.Unseen != 0 || w.Apart != 0 {
		t.Errorf("%+v", w)
	}
	for name, lines := range map[string][]Line{"types": w.Types, "pools": w.Pools, "workloads": w.Workloads} {
		now, after := 0.0, 0.0
		for _, l := range lines {
			now, after = now+l.Now, after+l.After
		}
		if math.Abs(now-w.Now) > 1e-9 || math.Abs(after-w.After) > 1e-9 {
			t.Errorf("%s: %.4f and %.4f, in all %.4f and %.4f", name, now, after, w.Now, w.After)
		}
	}
}

// TestALaunchThatIsLostCostsNothing has a node not come, and another one launched for its pod.
func TestALaunchThatIsLostCostsNothing(t *testing.T) {
	t.Parallel()
	file := windowJournal(t, []windowStep{
		{windowTypes + "pod web cpu=3\npod db cpu=7", []string{"general-b", "general-a"}},
		{windowTypes + "node b pool=general type=eight claim=general-b used.cpu=7\npod web cpu=3", []string{"general-c"}},
	})
	w, err := MakeWindow(file, "journal", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Lost != 1 || w.Nodes != 2 || w.Unseen != 1 || w.Launched != 2 || math.Abs(w.Now-0.56) > 1e-9 || w.BoundEach > w.Now+1e-9 {
		t.Errorf("%+v", w)
	}
	if text := w.Table(); !strings.Contains(text, "1 launch became no node") || !strings.Contains(text, "1 node not in a later snapshot") {
		t.Errorf("the table says\n%s", text)
	}
}

func TestAWindowWithoutDemand(t *testing.T) {
	t.Parallel()
	file := windowJournal(t, []windowStep{{windowTypes + "pod web cpu=3", []string{"general-a"}}})
	if _, err := MakeWindow(file, "journal", story.Now().Add(time.Minute)); !errors.Is(err, ErrNoDemand) {
		t.Errorf("MakeWindow() = %v, want %v", err, ErrNoDemand)
	}
}
