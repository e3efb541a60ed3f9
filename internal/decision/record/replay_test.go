package record_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestReplayGivesTheSamePlan decides about random clusters, writes the decisions down,
// reads them, and decides again: the plan read and the plan decided again are those of
// the first time, byte for byte.
func TestReplayGivesTheSamePlan(t *testing.T) {
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
				first := &record.Decision{Loop: loop, Snapshot: snap}
				decide(first)
				again := reread(t, first)
				if !record.SamePlan(first, again) {
					t.Fatalf("the plan read is another:\n%q\n%s", record.Differences(first, again), text)
				}
				replayed := again.Redo()
				if replayed.Bug != "" || !record.SamePlan(first, replayed) {
					t.Fatalf("the plan decided again is another: %s\n%q\n%s", replayed.Bug, record.Differences(first, replayed), text)
				}
				if a, b := encode(t, first), encode(t, again); !bytes.Equal(a, b) {
					t.Fatalf("written again, the record is another:\n%s\n%s", a, b)
				}
			})
		})
	}
}

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func encode(t fataler, d *record.Decision) []byte {
	t.Helper()
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func reread(t fataler, d *record.Decision) *record.Decision {
	t.Helper()
	again, err := record.Decode(encode(t, d))
	if err != nil {
		t.Fatal(err)
	}
	return again
}
