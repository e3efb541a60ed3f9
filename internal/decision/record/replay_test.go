package record_test

import (
	"bytes"
	"fmt"
	"slices"
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
				inPieces(t, first)
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

// heap keeps pieces without any bound.
type heap struct {
	texts   [][]byte
	numbers map[string]int64
}

func (h *heap) Put(_ string, text []byte, _ []int64) int64 {
	n, ok := h.numbers[string(text)]
	if !ok {
		n = int64(len(h.texts))
		h.texts = append(h.texts, text)
		h.numbers[string(text)] = n
	}
	return n
}

func (h *heap) Use(number int64) bool { return number < int64(len(h.texts)) }

func (h *heap) text(number int64) ([]byte, error) {
	if number >= int64(len(h.texts)) {
		return nil, fmt.Errorf("there is no piece %d", number)
	}
	return h.texts[number], nil
}

// inPieces writes a decision in pieces, and then one about a cluster that differs in a node, and another in
// which that node's pods have constraints of their own: each is read as it was, and what has not
// changed is not written again.
func inPieces(t fataler, first *record.Decision) {
	t.Helper()
	h := &heap{numbers: map[string]int64{}}
	w := record.NewWriter(h)
	for i := range 4 {
		d, snap := *first, *first.Snapshot
		d.Snapshot, snap.Nodes = &snap, slices.Clone(snap.Nodes)
		if len(snap.Nodes) > 0 && i > 0 {
			n := &snap.Nodes[i%len(snap.Nodes)]
			n.Planned += i
			n.Reschedulable = slices.Clone(n.Reschedulable)
			for k := range n.Reschedulable {
				if own := *n.Reschedulable[k].Constraints; i > 1 {
					n.Reschedulable[k].Constraints = &own // equal, and another one
				}
			}
		}
		text, err := w.Write(&d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := record.Read(text, h.text)
		if err != nil {
			t.Fatal(err)
		}
		if !record.SamePlan(&d, again) || !record.SamePlan(again, &d) {
			t.Fatal("in pieces the plan is another: ", record.Differences(&d, again))
		}
		again.Stays, again.Disruption.Blocked = record.Stays{}, d.Disruption.Blocked
		if a, b := encode(t, &d), encode(t, again); !bytes.Equal(a, b) {
			t.Fatal("read from pieces, the record is another:\n", string(a), "\n", string(b))
		}
		before := len(h.texts)
		if same, err := w.Write(&d); err != nil || !bytes.Equal(same, text) || len(h.texts) != before {
			t.Fatal("written again it is another, or has more pieces: ", err, len(h.texts)-before)
		}
	}
}
