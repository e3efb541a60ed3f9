package pack_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// mixes are kinds of pods in great numbers, by what sets a deployment apart.
func mixes() map[string]func(r *rand.Rand, app int) string {
	hosts := func(r *rand.Rand, app int) string {
		return []string{
			"spread=host:1", "spread=host:3", fmt.Sprintf("apart=host:app%d", app), fmt.Sprintf("apart=host:app%d", r.IntN(app+1)),
		}[r.IntN(4)]
	}
	return map[string]func(r *rand.Rand, app int) string{
		"plain": func(*rand.Rand, int) string { return "" },
		"rules": func(r *rand.Rand, app int) string { // 40 % spread over zones, 20 % with a rule per node
			switch roll := r.IntN(10); {
			case roll < 4:
				return "spread=zone:1"
			case roll < 6:
				return hosts(r, app)
			}
			return ""
		},
		"each by itself": nil, // no two pods are alike
	}
}

// manyPods returns a cluster with so many pending pods of a mix, and 900 types to launch.
func manyPods(tb testing.TB, mix string, pods int) *cluster.Snapshot {
	tb.Helper()
	var b strings.Builder
	for family, perCore := range []int{2, 4, 8} {
		for size := range 10 {
			for age := range 30 {
				cores := 2 << min(size, 5) * (1 + max(0, size-5))
				fmt.Fprintf(&b, "type t%d-%d-%d cpu=%d memory=%dGi price=%.4f zones=a,b,c\n", family, size, age, cores, cores*perCore,
					float64(cores)*(0.034+0.004*float64(perCore))*(1+float64(age)/100))
			}
		}
	}
	b.WriteString("pool general\ndaemon agent cpu=100m memory=192Mi\n")
	r := rand.New(rand.NewPCG(1, uint64(pods))) //nolint:gosec // it must be the same each time
	rules := mixes()[mix]
	for app, left := 0, pods; left > 0; app++ {
		n, extra := 1, ""
		cores := min(8, 0.35*math.Exp(r.NormFloat64()))
		milli, mebi := 50*(1+int(cores*20)), 64*(1+int(cores*16*(1+7*r.Float64())))
		if rules == nil {
			milli, mebi = int(1000*cores)+1, int(1024*cores*(1+7*r.Float64()))+1
		} else {
			n, extra = min(left, pods/10, int(3*math.Pow(1-r.Float64(), -1/1.2))), rules(r, app)
		}
		if strings.Contains(extra, "host") {
			n = min(n, 60)
		}
		left -= n
		fmt.Fprintf(&b, "pod app%d app=app%d cpu=%dm memory=%dMi count=%d %s\n", app, app, milli, mebi, n, extra)
	}
	snap, err := story.Parse(b.String())
	if err != nil {
		tb.Fatal(err)
	}
	return snap
}

// TestFewerAllocationsThanPods counts those of a whole plan. It does not run beside other tests,
// whose allocations would count.
func TestFewerAllocationsThanPods(t *testing.T) {
	if testkit.Raced {
		t.Skip("the race detector allocates, too")
	}
	const pods = 10000
	for mix := range mixes() {
		snap := manyPods(t, mix, pods)
		refused := 0
		allocs := testing.AllocsPerRun(1, func() {
			p := pack.Solve(snap, pack.Options{})
			refused = len(p.Refusals)
		})
		t.Logf("%s: %.2f allocations per pod", mix, allocs/pods)
		if allocs >= pods {
			t.Errorf("%s: planning %d pods takes %.0f allocations, %.2f per pod", mix, pods, allocs, allocs/pods)
		}
		if refused > 0 {
			t.Errorf("%s: %d pods are refused", mix, refused)
		}
	}
}

// BenchmarkSolve plans pods for which everything must be launched.
func BenchmarkSolve(b *testing.B) {
	for _, pods := range []int{1000, 10000, 50000} {
		for mix := range mixes() {
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(mix, " ", "-"), pods), func(b *testing.B) {
				snap := manyPods(b, mix, pods)
				b.ReportAllocs()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for b.Loop() {
					pack.Solve(snap, pack.Options{})
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N*pods), "allocs/pod")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
			})
		}
	}
}
