package generate

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// hostilePods is how many pods of each hostile family are decided about.
var hostilePods = flag.Int("hostile-pods", 60, "pods of each hostile family")

// ordinaryPods are decided about beside them.
const ordinaryPods = 50

// TestHostileFamilies: beside pods of each family, every ordinary pod is answered as without
// them, within the effort that decisions may take, and the same twice.
func TestHostileFamilies(t *testing.T) {
	t.Parallel()
	for _, f := range HostileFamilies() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			snap, err := HostileSnapshot(append(Ordinary(ordinaryPods), f.Objects(*hostilePods)...)...)
			if err != nil {
				t.Fatal(err)
			}
			if len(snap.Pending) != ordinaryPods+*hostilePods {
				t.Fatalf("%d pods are pending, want %d", len(snap.Pending), ordinaryPods+*hostilePods)
			}
			p := pack.Decide(snap, pack.Options{})
			for _, why := range p.GivenUp {
				if why != plan.CauseEffort {
					t.Errorf("the decision was given up: %s", why)
				}
			}
			for _, r := range p.Refusals {
				if r.Pod.Namespace == "ordinary" {
					t.Errorf("ordinary pod %s is refused: %s", r.Pod, r.Why)
				}
			}
			if again := pack.Decide(snap, pack.Options{}); again.Effort != p.Effort || len(again.Launches) != len(p.Launches) {
				t.Errorf("%d launches with %d units of effort, and then %d with %d", len(p.Launches), p.Effort, len(again.Launches), again.Effort)
			}
		})
	}
}

// BenchmarkHostile decides about pods of each family beside ordinary ones. It reports how many
// times as long that takes as a decision about as many ordinary pods, and how often the decision
// was given up: most of them end within what one may take.
func BenchmarkHostile(b *testing.B) {
	ordinary, err := HostileSnapshot(Ordinary(ordinaryPods + *hostilePods)...)
	if err != nil {
		b.Fatal(err)
	}
	const rounds = 20
	start := cpuTime(b)
	for range rounds {
		pack.Decide(ordinary, pack.Options{})
	}
	normal := (cpuTime(b) - start) / rounds
	for _, f := range HostileFamilies() {
		b.Run(fmt.Sprintf("%s-%d", f.Name, *hostilePods), func(b *testing.B) {
			snap, err := HostileSnapshot(append(Ordinary(ordinaryPods), f.Objects(*hostilePods)...)...)
			if err != nil {
				b.Fatal(err)
			}
			var p plan.Plan
			start := cpuTime(b)
			for b.Loop() {
				p = pack.Decide(snap, pack.Options{})
			}
			took := (cpuTime(b) - start) / time.Duration(b.N)
			b.ReportMetric(float64(took)/float64(normal), "x-ordinary")
			b.ReportMetric(float64(len(p.GivenUp)), "given-up")
			b.ReportMetric(float64(len(p.Refusals)), "refused")
		})
	}
}

// cpuTime returns how much CPU time the process has used in its own code.
func cpuTime(tb testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano())
}
