package record_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestReplayGivesTheSamePlan decides about random clusters, writes the decisions down,
// reads them, and decides again: the plan read and the plan decided again are those of
// the first time, byte for byte.
func TestReplayGivesTheSamePlan(t *testing.T) {
	t.Parallel()
	for loop, decide := range map[record.Loop]func(*cluster.Snapshot) plan.Plan{
		record.Provisioning: func(s *cluster.Snapshot) plan.Plan { return pack.Solve(s, pack.Options{}) },
		record.Disruption:   func(s *cluster.Snapshot) plan.Plan { return disrupt.Propose(s, disrupt.Options{}) },
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

// large returns a decision about 10,000 pods of 100 workloads and 500 nodes, with
// everything that EC2 sells.
func large(b *testing.B) *record.Decision {
	b.Helper()
	text := "pool general limit.cpu=100000\n"
	for i := range 500 {
		text += fmt.Sprintf("node n%d pool=general cpu=16 memory=64Gi zone=us-east-1a\nrunning r%d on=n%d count=14 cpu=1 app=a%d\n", i, i, i, i%50)
	}
	for i := range 100 {
		text += fmt.Sprintf("pod w%d cpu=%dm memory=%dMi count=100 app=a%d spread=zone:1\n", i, 100+i*30, 200+i*50, i)
	}
	snap, err := story.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	for i := range snap.Pending {
		snap.Pending[i].UID = fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", i*2654435761, i*40503&0xffff, i*977&0xfff, i*31&0xfff, i*6364136223846793005&0xffffffffffff)
	}
	if snap.Pools[0].Types, err = ec2catalog.Types(); err != nil {
		b.Fatal(err)
	}
	return &record.Decision{Loop: record.Provisioning, Snapshot: snap, Plan: pack.Solve(snap, pack.Options{}), Took: time.Second}
}

// BenchmarkEncode writes a decision about 10,000 pods and 500 nodes, and prints how large
// it is, plain and compressed.
func BenchmarkEncode(b *testing.B) {
	d := large(b)
	b.ReportAllocs()
	var plain, compressed int
	for b.Loop() {
		text := encodeB(b, d)
		plain = len(text)
	}
	var buf bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	text := encodeB(b, d)
	start := time.Now()
	if _, err := w.Write(text); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	compressed = buf.Len()
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-gzip")
	b.ReportMetric(float64(plain), "B-plain")
	b.ReportMetric(float64(compressed), "B-gzip")
}

// BenchmarkDecode reads that decision.
func BenchmarkDecode(b *testing.B) {
	text := encodeB(b, large(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

func encodeB(b *testing.B, d *record.Decision) []byte {
	b.Helper()
	text, err := d.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return text
}
