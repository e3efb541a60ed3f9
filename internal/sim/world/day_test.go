package world

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var days = flag.Int("days", 0, "how many days of clusters TestDays plays, each with a fresh seed from -from on")

// day is a cluster's day with every fault, and the rest at its end.
func day(nodes int) Options {
	return Options{Stormy: 24*time.Hour - restIn, Calm: restIn, Nodes: nodes, Ordinary: true}
}

// cpuTime returns how much of the processors this process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestDays plays days of clusters, and prints, with -v at once, what came of each.
func TestDays(t *testing.T) {
	if *days == 0 {
		t.Skip("no -days")
	}
	var lasted time.Duration
	var nodeHours float64
	broken := 0
	for s := *from; s < *from+uint64(*days); s++ {
		o := day(*nodes)
		r := Run(s, o)
		lasted, nodeHours = lasted+r.Lasted, nodeHours+r.NodeHours
		if r.Violation != "" {
			broken++
			t.Errorf("seed %d, after %d events: %s\n%s", s, r.Events, r.Violation, command(s, &o))
		}
		t.Logf("seed %d: %.1f days, %.0f node hours, %d violations, %s of cpu time, %.0f times real time",
			s, lasted.Hours()/24, nodeHours, broken, cpuTime(t).Round(time.Second), lasted.Seconds()/cpuTime(t).Seconds())
	}
}

// TestAnOrdinaryMorning plays a few hours of such a day.
func TestAnOrdinaryMorning(t *testing.T) {
	t.Parallel()
	o := day(*nodes)
	o.Stormy = 3 * time.Hour
	play(t, *from, o)
}

// BenchmarkDay plays a day of a cluster: deployments, a load that follows the hour, Jobs,
// interruptions, a roll-out of images, and every fault. Days differ widely: -benchtime 10x plays
// ten seeds, from -from on, and prints the mean of them.
func BenchmarkDay(b *testing.B) {
	for _, nodes := range []int{6, 200} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			var took, lasted time.Duration
			var nodeHours, events float64
			for i := range b.N {
				before := cpuTime(b)
				r := Run(*from+uint64(i), day(nodes))
				cpu := cpuTime(b) - before
				if r.Violation != "" {
					b.Errorf("seed %d, after %d events: %s", *from+uint64(i), r.Events, r.Violation)
				}
				took, lasted = took+cpu, lasted+r.Lasted
				nodeHours, events = nodeHours+r.NodeHours, events+float64(r.Events)
				b.Logf("seed %d, %.0f times real time: %v\n%s", *from+uint64(i), r.Lasted.Seconds()/cpu.Seconds(), r.Stats, perHour(r.Work, r.Lasted))
			}
			b.ReportMetric(lasted.Seconds()/took.Seconds(), "x-real-time")
			b.ReportMetric(float64(took.Milliseconds())/lasted.Hours(), "cpu-ms/hour")
			b.ReportMetric(nodeHours/lasted.Hours(), "nodes")
			b.ReportMetric(events/lasted.Hours(), "events/hour")
		})
	}
}

// perHour returns how often each looked in an hour, the busiest first.
func perHour(work map[string]int, lasted time.Duration) string {
	names := slices.SortedFunc(maps.Keys(work), func(a, b string) int { return work[b] - work[a] })
	var lines []string
	for _, name := range names {
		lines = append(lines, fmt.Sprintf("%8.0f an hour: %s", float64(work[name])/lasted.Hours(), name))
	}
	return strings.Join(lines, "\n")
}
