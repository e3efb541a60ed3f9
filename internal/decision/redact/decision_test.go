package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/redact"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestTheSameIsDecidedUpToNames redacts decisions about random clusters: decided again they are the same, and so they
// are when they are redacted once more.
func TestTheSameIsDecidedUpToNames(t *testing.T) {
	t.Parallel()
	for loop, decide := range map[record.Loop]func(d *record.Decision){
		record.Provisioning: func(d *record.Decision) { d.Plan = pack.Decide(d.Snapshot, pack.Options{}) },
		record.Disruption: func(d *record.Decision) { // the second of two, with what the first remembered
			_, d.Memory = disrupt.Propose(d.Snapshot, disrupt.Memory{}, disrupt.Options{})
			d.Disruption, _ = disrupt.Propose(d.Snapshot, d.Memory, disrupt.Options{})
		},
	} {
		t.Run(string(loop), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				text := story.Any(t)
				for i := range rapid.IntRange(0, 2).Draw(t, "buffers") {
					text += fmt.Sprintf("\nbuffer b%d chunks=%d cpu=%dm app=x", i, rapid.IntRange(0, 4).Draw(t, "chunks"), rapid.IntRange(1, 2000).Draw(t, "chunk cpu"))
				}
				snap, err := story.Parse(text)
				if err != nil {
					t.Fatalf("%v in\n%s", err, text)
				}
				d := &record.Decision{Loop: loop, Snapshot: snap}
				decide(d)
				first := redacted(t, d, text)
				if again := first.Redo(); again.Bug != "" || !record.SamePlan(first.Decision, again) {
					t.Fatalf("decided again it is another: %s %q\n%s", again.Bug, record.Differences(first.Decision, again), text)
				}
				redacted(t, first.Decision, text)
			})
		})
	}
}

// TestNodesExpireAsBefore: of nodes of one age the names of their NodeClaims say which are due, and redaction leaves them so.
func TestNodesExpireAsBefore(t *testing.T) {
	t.Parallel()
	text := "type four cpu=4 memory=8Gi price=0.20\npool general after=Never budget=40\n"
	for i := range 40 {
		text += fmt.Sprintf("node n%02d pool=general type=four age=98h expires=6h\nrunning web on=n%02d cpu=3\n", i, i) // half of them are due
	}
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d := &record.Decision{Loop: record.Disruption, Snapshot: snap}
	d.Disruption, _ = disrupt.Propose(snap, d.Memory, disrupt.Options{})
	if n := len(d.Disruption.Commands); n == 0 || n == 40 {
		t.Fatalf("%d of 40 nodes are replaced, want some", n)
	}
	r, err := redact.Decision(d)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same || !r.Remade {
		t.Errorf("same %v, remade %v: %s", r.Same, r.Remade, strings.Join(r.Differences, "\n"))
	}
	for i := range r.Snapshot.Nodes {
		if n := &r.Snapshot.Nodes[i]; n.DueShare == 0 || n.DueShare != 1 && n.DueShare&0xffff != 0 {
			t.Errorf("%s has share %#x, of which the name could be guessed", n.Name, n.DueShare)
		}
	}
}

func redacted(t *rapid.T, d *record.Decision, text string) redact.Result {
	t.Helper()
	r, err := redact.Decision(d)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same || !r.Remade {
		t.Fatalf("same %v, remade %v: %s\n%s", r.Same, r.Remade, strings.Join(r.Differences, "\n"), text)
	}
	return r
}
