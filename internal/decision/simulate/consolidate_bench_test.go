package simulate

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
)

// BenchmarkConsolidate is the whole plan for 5,000 nodes with about 80,000 pods of 300
// workloads; the steps that need no new node; and the answer when nothing is left to be
// done after one pod has gone. One core: -cpu 1.
func BenchmarkConsolidate(b *testing.B) {
	f := family{fill: 0.55, small: true}
	still := func() time.Time { return time.Unix(0, 0) }
	clock := Clock{Now: still, CPU: userTime}
	s := f.generate(b, 5000, 1)
	c := Case{Name: s.Name, Snapshot: s.Snapshot(still()), Options: scenarioOptions()}
	pods := 0
	for i := range c.Snapshot.Nodes {
		pods += len(c.Snapshot.Nodes[i].Reschedulable)
	}
	found := Consolidate(c, consolidate.Options{}, clock)
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			found = Consolidate(c, consolidate.Options{}, clock)
		}
		b.ReportMetric(found.CPU.Seconds()*1000, "cpu-ms")
		b.ReportMetric(float64(pods), "pods")
		b.ReportMetric(float64(len(found.Steps)), "steps")
	})
	b.Run("drains", func(b *testing.B) {
		b.ReportAllocs()
		var drains *Saving
		for b.Loop() {
			drains = Consolidate(c, consolidate.Options{DrainOnly: true}, clock)
		}
		b.ReportMetric(drains.CPU.Seconds()*1000, "cpu-ms")
		b.ReportMetric(float64(len(drains.Steps)), "steps")
	})
	for range 8 {
		file, err := found.File()
		if err != nil {
			b.Fatal(err)
		}
		s = s.After(file)
		c.Snapshot = s.Snapshot(still())
		if found = Consolidate(c, consolidate.Options{}, clock); len(found.Steps) == 0 {
			break
		}
	}
	s.Nodes[0].Pods[0][1]--
	c.Snapshot = s.Snapshot(still())
	changed := s.Nodes[0].Name
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			found = Consolidate(c, consolidate.Options{Changed: func(n *cluster.Node) bool { return n.Name == changed }}, clock)
		}
		b.ReportMetric(found.CPU.Seconds()*1000, "cpu-ms")
		b.ReportMetric(float64(len(found.Steps)), "steps")
	})
	b.Run("look", func(b *testing.B) {
		b.ReportAllocs()
		least, steps, kept := time.Hour, 0, 0
		settled := c.Snapshot.At.Add(-time.Second)
		at := slices.IndexFunc(c.Snapshot.Nodes, func(n cluster.Node) bool { return n.Name == changed })
		for i := range c.Snapshot.Nodes {
			c.Snapshot.Nodes[i].LastPodEvent = c.Snapshot.At.Add(-time.Hour)
		}
		c.Snapshot.Nodes[at].LastPodEvent = c.Snapshot.At.Add(-10 * time.Second) // which is over now
		for b.Loop() {
			start := userTime()
			p, _ := disrupt.Propose(c.Snapshot, disrupt.Memory{ConclusiveAt: settled, CheckedAt: settled, ConclusiveFor: time.Hour}, disrupt.Options{Pack: c.Options})
			least, steps, kept = min(least, userTime()-start), len(p.Commands), len(p.Blocked)
		}
		b.ReportMetric(least.Seconds()*1000, "cpu-ms")
		b.ReportMetric(float64(steps), "steps")
		b.ReportMetric(float64(kept), "kept")
	})
}

// userTime returns the CPU time that the process has used.
func userTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano())
}
