package journal

import (
	"bytes"
	"fmt"
	"log/slog"
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
			j.take(d)
			b.ReportAllocs()
			run(b, j)
			b.ReportMetric(float64(len(j.kept[0].line)), "B-kept")
		})
	}
	bench("new", func(b *testing.B, j *Journal) {
		triggers := *d
		for i := 0; b.Loop(); i++ {
			triggers.Error = fmt.Sprint(i)
			j.take(&triggers)
		}
	})
	bench("same", func(b *testing.B, j *Journal) {
		for b.Loop() {
			j.take(d)
		}
	})
	bench("add", func(b *testing.B, j *Journal) {
		for b.Loop() {
			j.Add(d)
			<-j.queue
		}
	})
	bench("unpack", func(b *testing.B, j *Journal) {
		file := fileOf(b, j, 1)
		for b.Loop() {
			unpackAll(b, file)
		}
	})
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
