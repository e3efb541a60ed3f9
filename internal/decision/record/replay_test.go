package record_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestReplayGivesTheSamePlan decides about random clusters, writes the decisions down,
// reads them, and decides again: the plan read and the plan decided again are those of
// the first time, byte for byte.
func TestReplayGivesTheSamePlan(t *testing.T) {
	t.Parallel()
	for loop, decide := range map[record.Loop]func(*cluster.Snapshot) plan.Plan{
		record.Provisioning: func(s *cluster.Snapshot) plan.Plan { return pack.Decide(s, pack.Options{}) },
		record.Disruption: func(s *cluster.Snapshot) plan.Plan {
			p, _ := disrupt.Propose(s, disrupt.Memory{}, disrupt.Options{})
			return p
		},
	} {
		t.Run(string(loop), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				text := story.Any(t)
				snap, err := story.Parse(text)
				if err != nil {
					t.Fatalf("%v in\n%s", err, text)
				}
				first := &record.Decision{Loop: loop, Snapshot: snap, Plan: decide(snap)}
				again := reread(t, first)
				if !record.SamePlan(&first.Plan, &again.Plan) {
					t.Fatalf("the plan read is another:\n%q\n%s", record.Differences(&first.Plan, &again.Plan), text)
				}
				replayed, bug := again.Redo()
				if bug != "" || !record.SamePlan(&first.Plan, &replayed) {
					t.Fatalf("the plan decided again is another: %s\n%q\n%s", bug, record.Differences(&first.Plan, &replayed), text)
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
