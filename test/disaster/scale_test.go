package disaster

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var scalePods = flag.Int("scale-pods", 2_000, "how many pods there are in the scale-up, 20 for each instance")

// TestScaleUp creates pods all at once, 20 for each instance: 20,000 need 1,000. EC2's token
// buckets are on, and may not run dry.
func TestScaleUp(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	synctest.Test(t, func(t *testing.T) { scaleUp(t, fewer(*scalePods), 0) })
}

// TestLaunchesDoNotWaitBehindOtherWrites has 100 instances launched by a controller that may send 20 requests a second
// to the API server. With one limit for all writes the last launches wait for some hundred of them. The times are virtual.
func TestLaunchesDoNotWaitBehindOtherWrites(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	synctest.Test(t, func(t *testing.T) {
		waits := scaleUp(t, fewer(2_000), 20)
		if p99 := waits[len(waits)*99/100]; p99 > 5*time.Second {
			t.Errorf("pods wait for up to %s until their instances are launched", p99)
		}
	})
}

// scaleUp creates pods and waits until all of them run; then it prints what that took. It returns for how long each pod
// waited for its instance, in order. qps is kube-client-qps; 0: the default.
func scaleUp(t *testing.T, pods, qps int) (waits []time.Duration) {
	const apps = 20
	w := newWorld(t, nil)
	w.qps = qps
	defer w.end()
	w.furnish("8")
	w.begin()
	w.until(5*time.Minute, w.poolReady)
	time.Sleep(time.Minute) // what was spent on getting ready comes back
	created := map[cluster.Key]time.Time{}
	w.kube.locked(func() {
		w.kube.api.Watch(func(kind string, was, is client.Object) {
			if kind == "Pod" && was == nil {
				created[cluster.KeyOf(is)] = time.Now()
			}
		})
	})
	before, begun := w.sim.Calls(), time.Now()
	for i := range apps {
		w.kube.scale(&cluster.Workload{Name: fmt.Sprintf("app-%d", i), CPUMilli: 380, MemoryMiB: 300, GraceSeconds: 20}, pods/apps)
	}
	w.until(20*time.Minute, func() string { return w.allRun(pods) })
	t.Logf("%s, %s after the first was created", w.picture(), time.Since(begun))
	after := w.sim.Calls()
	w.until(5*time.Minute, w.agree)

	launched := map[string]time.Time{} // by Node
	for _, i := range w.sim.Instances() {
		launched[i.Node] = i.Launched
	}
	w.kube.locked(func() {
		for _, pod := range cluster.All[*corev1.Pod](w.kube.api) {
			waits = append(waits, launched[pod.Spec.NodeName].Sub(created[cluster.KeyOf(pod)]))
		}
	})
	slices.Sort(waits)
	calls := 0
	for name, n := range after {
		if n -= before[name]; n > 0 {
			t.Logf("%6d %s", n, name)
			calls += n
		}
	}
	t.Logf("%d instances, %.2f calls for each; from a pod's creation to EC2's answer for the instance it runs on: p50 %s, p99 %s; the batch window is 1 s without a new pod, 10 s at most",
		len(launched), float64(calls)/float64(len(launched)), waits[len(waits)/2], waits[len(waits)*99/100])
	for answer, n := range w.sim.Refused() {
		if strings.Contains(answer, "RequestLimitExceeded") {
			t.Errorf("throttled %d times: %s", n, answer)
		}
	}
	if want := pods / 20; len(launched) > want+want/20 {
		t.Errorf("%d instances were launched for %d pods, 20 on each", len(launched), pods)
	}
	return waits
}
