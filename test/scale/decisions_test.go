package scale

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

var fleetPods = flag.Int("fleet-pods", 100_000, "how many pods the cluster has")

// cpuTime returns how much of the processors this process has used.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// computer says on what something was measured, and when.
func computer() string {
	load, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return strings.Join([]string{
		time.Now().UTC().Format(time.DateOnly), model, runtime.GOOS + "/" + runtime.GOARCH, runtime.Version(),
		"load " + strings.TrimSpace(string(load)),
	}, ", ")
}

// measured runs step so often as the benchmark wants, each time after prepare, and reports its CPU time, without
// that of the garbage collector, and what it allocates.
func measured(b *testing.B, prepare, step func(i int)) {
	b.Helper()
	var cpu time.Duration
	var bytes, objects uint64
	var before, after runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what it costs is measured in the controller, whose heap is smaller
	for i := range b.N {
		prepare(i)
		runtime.ReadMemStats(&before)
		began := cpuTime(b)
		step(i)
		cpu += cpuTime(b) - began
		runtime.ReadMemStats(&after)
		bytes, objects = bytes+after.TotalAlloc-before.TotalAlloc, objects+after.Mallocs-before.Mallocs
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(cpu.Microseconds())/1000/n, "cpu-ms/op")
	b.ReportMetric(float64(bytes)/1e6/n, "MB-garbage/op")
	b.ReportMetric(float64(objects)/n, "allocs/op")
}

// BenchmarkDecisions measures the steps of decisions about a large cluster, each after one change unless its name
// says otherwise, on one processor: go test ./test/scale -run '^$' -bench Decisions -benchtime 10x -cpu 1.
func BenchmarkDecisions(b *testing.B) {
	f := newFleet(b, *fleetPods, time.Now())
	f.trim()
	s := f.mirrored(b)
	s.Snapshot()
	b.Logf("%d nodes, %d pods, %.0f $/h; %s", len(f.nodes), len(f.pods), f.price, computer())
	change := func(i int) { touch(b, f, s, i) }
	b.Run("pod-event", func(b *testing.B) {
		measured(b, func(int) {}, change)
	})
	b.Run("snapshot", func(b *testing.B) {
		measured(b, change, func(int) { s.Snapshot() })
	})
	for _, pods := range []int{1, 1000} {
		name := map[int]string{1: "plan-1-pod", 1000: "plan-1000-pods"}[pods]
		b.Run(name, func(b *testing.B) { planAfter(b, f, s, pods) })
	}
	b.Run("disruption-first", func(b *testing.B) {
		snap := s.Snapshot()
		measured(b, func(int) {}, func(int) { disrupt.Propose(snap, disrupt.Memory{}, options(s)) })
	})
	b.Run("disruption", func(b *testing.B) { searchAfter(b, f, s) })
	runtime.KeepAlive(f)
}

// touch has the kubelet report the status of a pod again.
func touch(tb testing.TB, f *fleet, s *mirror.Store, i int) {
	tb.Helper()
	at := i * 7919 % len(f.pods)
	pod := f.pods[at].DeepCopy()
	pod.ResourceVersion += "1"
	f.pods[at] = pod
	if err := s.Observe(pod); err != nil {
		tb.Fatal(err)
	}
}

// planAfter measures snapshot and plan after so many pods have come, which are gone again before the next.
func planAfter(b *testing.B, f *fleet, s *mirror.Store, pods int) {
	b.Helper()
	launches := 0
	var come []client.Object
	measured(b, func(i int) {
		leave(b, s, come)
		come = come[:0]
		for k := range pods {
			pod := arrived(i*pods+k, f.at)
			if pods == 1 {
				large(pod)
			}
			come = append(come, pod)
		}
		if err := s.Observe(come...); err != nil {
			b.Fatal(err)
		}
	}, func(int) {
		p := pack.Decide(disrupt.Reserve(s.Snapshot()), pack.Options{})
		if len(p.Refusals) > 0 {
			b.Fatalf("refused: %v", p.Refusals[0])
		}
		launches = len(p.Launches)
	})
	leave(b, s, come)
	b.ReportMetric(float64(launches), "launches")
}

// leave has pods end.
func leave(tb testing.TB, s *mirror.Store, pods []client.Object) {
	tb.Helper()
	for _, o := range pods {
		ended := o.(*corev1.Pod).DeepCopy()
		ended.Status.Phase = corev1.PodSucceeded
		if err := s.Observe(ended); err != nil {
			tb.Fatal(err)
		}
	}
}

func options(s *mirror.Store) disrupt.Options {
	return disrupt.Options{
		Grace: 2 * time.Second, Terms: consolidate.DefaultTerms(), Events: disrupt.Events{Reported: s.EventCount(), Initialized: s.InitializedCount()},
	}
}

// searchAfter measures the search for nodes to disrupt after one change, once nothing more was found.
func searchAfter(b *testing.B, f *fleet, s *mirror.Store) {
	b.Helper()
	var memory disrupt.Memory
	commands := 0
	search := func() {
		p, next := disrupt.Propose(s.Snapshot(), memory, options(s))
		memory, commands = next, len(p.Commands)
		f.at = f.at.Add(10 * time.Second)
	}
	search()
	first := commands
	search()
	measured(b, func(i int) { touch(b, f, s, i) }, func(int) { search() })
	b.ReportMetric(float64(first), "commands-at-first")
	b.ReportMetric(float64(commands), "commands")
}
