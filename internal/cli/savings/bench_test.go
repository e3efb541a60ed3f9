package savings

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// large returns a cluster of so many nodes with 20 pods each of 100 workloads.
func large(nodes int) []client.Object {
	groups := []nodeGroup{
		{name: "general", typ: "m5.2xlarge", capacity: "ON_DEMAND", cpu: 8, memGiB: 32, nodes: nodes * 6 / 10},
		{name: "memory", typ: "r5.2xlarge", capacity: "ON_DEMAND", cpu: 8, memGiB: 64, nodes: nodes * 2 / 10},
		{name: "cheap", typ: "m5.4xlarge", capacity: "SPOT", cpu: 16, memGiB: 64, nodes: nodes * 2 / 10},
	}
	var workloads []workload
	for i := range 100 {
		w := workload{namespace: "shop", name: fmt.Sprintf("w%03d", i), pods: nodes * 20 / 100, cpuMilli: int64(100 + 50*(i%7)), memMiB: int64(256 << (i % 4)), allowed: -1}
		if i%4 == 0 {
			w.allowed = int32(w.pods / 10)
		}
		w.spread, w.held = i%10 == 3, i%50 == 7
		workloads = append(workloads, w)
	}
	return groupsCluster(groups, workloads, 7)
}

// BenchmarkMake is the whole answer for 1,000 nodes with 20,000 pods, the page included. Reading them is not in it.
func BenchmarkMake(b *testing.B) {
	for range b.N {
		b.StopTimer()
		objects := large(1000)
		b.StartTimer()
		used := userTime()
		r, err := Make(Input{Objects: objects, At: start(), Clock: stillClock()})
		if err != nil {
			b.Fatal(err)
		}
		var page bytes.Buffer
		if err := r.WritePage(&page); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((userTime() - used).Seconds(), "cpu-s")
		b.ReportMetric(r.Now, "$/h-now")
		b.ReportMetric(r.After, "$/h-after")
		b.ReportMetric(r.Bound, "$/h-least")
		b.ReportMetric(float64(r.Pods), "pods")
		b.ReportMetric(float64(len(r.Steps)), "steps")
		b.ReportMetric(float64(page.Len()), "page-bytes")
	}
}

// userTime returns the CPU time that the process has used.
func userTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano())
}
