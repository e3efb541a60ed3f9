package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

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

// BenchmarkKeep measures what a decision about 10,000 pods and 500 nodes costs beside the
// loop: to keep it when it differs from the one before, to see that it does not, and to unpack it again. What
// it costs the loop is Add. All print how large the decision is in the journal.
func BenchmarkKeep(b *testing.B) {
	d := large(b)
	bench := func(name string, run func(b *testing.B, j *Journal)) {
		b.Run(name, func(b *testing.B) {
			j, err := Open(Options{
				MemoryBytes: 64 << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {},
			})
			if err != nil {
				b.Fatal(err)
			}
			j.takeNow(d)
			b.ReportAllocs()
			run(b, j)
			b.ReportMetric(float64(len(j.kept[0].body)), "B-kept")
		})
	}
	bench("new", func(b *testing.B, j *Journal) {
		triggers := *d
		for i := 0; b.Loop(); i++ {
			triggers.Error = fmt.Sprint(i)
			j.takeNow(&triggers)
		}
	})
	bench("same", func(b *testing.B, j *Journal) {
		for b.Loop() {
			j.takeNow(d)
		}
	})
	bench("add", func(b *testing.B, j *Journal) {
		for b.Loop() {
			j.Add(d, j.Identify(d))
			<-j.queue
			j.snapshots.Add(-1)
		}
	})
	bench("unpack", func(b *testing.B, j *Journal) {
		file := fileOf(b, j, ID{Number: 1})
		for b.Loop() {
			unpackAll(b, file)
		}
	})
}

// takeNow takes a decision in as Run does.
func (j *Journal) takeNow(d *record.Decision) {
	j.Add(d, j.Identify(d))
	j.take(<-j.queue)
}

func unpackAll(b *testing.B, file []byte) {
	b.Helper()
	f, err := ReadFrom(bytes.NewReader(file), "journal")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.Decisions[0].Decision(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFleet measures, in a cluster of 5,000 nodes and 100,000 pods, what a decision costs that is kept
// when one node in a hundred has changed, how many the default memory has, and what an answer takes.
func BenchmarkFleet(b *testing.B) {
	const mib = 16
	f := newFleet(5000)
	j, err := Open(Options{MemoryBytes: mib << 20, Now: story.Now, Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			j.store = newStore(mib << 20)
			d := f.next()
			b.StartTimer()
			j.takeNow(d)
		}
		b.ReportMetric(float64(j.pieces.bytes), "B-kept")
	})
	j.takeNow(f.next())
	b.Run("keep", func(b *testing.B) {
		before, n := j.pieces.bytes+j.bytes, 0
		for b.Loop() {
			b.StopTimer()
			d := f.next()
			b.StartTimer()
			j.takeNow(d)
			n++
		}
		b.ReportMetric(float64(j.pieces.bytes+j.bytes-before)/float64(n), "B-kept")
	})
	for !slices.ContainsFunc(j.kept, func(k *kept) bool { return k.head.NoSnapshot }) {
		j.takeNow(f.next())
	}
	replayable := 0
	for _, k := range j.kept {
		if !k.head.NoSnapshot {
			replayable++
		}
	}
	b.Run("explain", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if len(j.Explain(Subject{Kind: KindNode, Name: f.snap.Nodes[i%len(f.snap.Nodes)].Name})) != 1 {
				b.Fatal("no answer")
			}
		}
		b.ReportMetric(float64(len(j.kept)), "decisions")
		b.ReportMetric(float64(replayable), "replayable")
		b.ReportMetric(float64(j.lines.count), "statements")
	})
	b.Run("read", func(b *testing.B) {
		file := fileOf(b, j, j.kept[len(j.kept)-1].head.ID)
		for b.Loop() {
			unpackAll(b, file)
		}
		b.ReportMetric(float64(len(file)), "B-file")
	})
}
