package world

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestOneReclaimTakesLess: with a premium less of a workload is down when the cloud reclaims an instance, ten minutes after
// all pods ran: consolidation has kept what placement gave.
func TestOneReclaimTakesLess(t *testing.T) {
	t.Parallel()
	if testing.Short() || testkit.Raced {
		t.Skip("plays 20 worlds of 35 minutes, each on one goroutine: make test-sim does")
	}
	const premium = 0.03
	for _, p := range []Pattern{LargeApp, ManyApps} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			without, with := reclaimed(t, p, 0), reclaimed(t, p, premium)
			if with.Down > without.Down*2/3 || with.PriceLater > without.PriceLater*(1+premium) {
				t.Errorf("with a premium %.3f are down and it costs %.3f, without %.3f and %.3f", with.Down, with.PriceLater, without.Down, without.PriceLater)
			}
			t.Logf("means: down at once %.3f for %s at %.3f $/h; with a premium %.3f for %s at %.3f",
				without.Down, without.DownFor, without.PriceLater, with.Down, with.DownFor, with.PriceLater)
		})
	}
}

// reclaimed plays a pattern with a few seeds, and returns means.
func reclaimed(t *testing.T, p Pattern, premium float64) (mean Arrived) {
	t.Helper()
	const n = 5
	arrivals := &Arrivals{
		Pattern: p, Reclaim: true, Rule: func(l *provisioning.Loop) { l.Pack.ResiliencePremium = premium },
		Consolidation: func(l *disruption.Loop) { l.Pack.ResiliencePremium = premium },
	}
	for s := range uint64(n) {
		r := Run(s+1, Options{Calm: ArrivalsLast, Arrivals: arrivals})
		if a := r.Arrived; r.Violation != "" || a.DownFor == 0 {
			t.Fatalf("seed %d: %s, %.2f are down for %s", s+1, r.Violation, a.Down, a.DownFor)
		}
		mean.Down += r.Arrived.Down / n
		mean.DownFor += (r.Arrived.DownFor / n).Round(time.Millisecond)
		mean.PriceLater += r.Arrived.PriceLater / n
	}
	return mean
}
