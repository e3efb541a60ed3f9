package world

import (
	"flag"
	"math"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var lateSeeds = flag.Uint64("late-seeds", 8, "how many seeds TestLateFailuresCostNoMore plays, from lateFirst on")

const (
	// lateCostMost is by how much a cloud whose launches fail late may cost more in the end, over all seeds.
	lateCostMost = 0.02
	// lateWaitMost is how long it may take after a late failure until the product launches again: it asks every fifteen
	// seconds, gathers pods for ten at most, and the cloud takes its time.
	lateWaitMost = 45 * time.Second
	// lateAgain is the same for pods that were meant for another launch meanwhile, which fails, too.
	lateAgain = 45 * time.Second
	// lateFirst is the first seed in whose world launches fail late: most offerings that others choose are in stock.
	lateFirst = 6
)

// quietly are the faults that a world is without in which only capacity lacks.
func quietly() (without []Fault) {
	for _, faults := range [][]Fault{writeFaults, launchFaults, joinFaults, volumeFaults, thinkFaults} {
		without = append(without, faults...)
	}
	for _, t := range timed {
		without = append(without, t.fault)
	}
	return append(without, StaticPools, Buffers, Gangs, Reboots, StuckLaunches, AbsurdPods, HeavyPods)
}

// TestLateFailuresCostNoMore: a cloud that accepts every launch, and fails after two minutes those for which it has no capacity,
// costs the same in the end as one that says so at once. After each failure the product launches again within a window.
func TestLateFailuresCostNoMore(t *testing.T) {
	t.Parallel()
	n := *lateSeeds
	if testing.Short() || testkit.Raced {
		n = 1
	}
	atOnce, late, worst, failures, longest := 0.0, 0.0, 0.0, 0, time.Duration(0)
	for s := uint64(lateFirst); s < lateFirst+n; s++ {
		o := Options{Stormy: 30 * time.Minute, Calm: restIn, Nodes: 12, Without: append(quietly(), LateIDs, LateFailures, LateNotices), With: []Fault{ShortAtFirst}}
		first := Run(s, o)
		o.Without, o.With = quietly(), []Fault{ShortAtFirst, LateFailures}
		second := Run(s, o)
		for _, r := range []Result{first, second} {
			if r.Violation != "" {
				t.Fatalf("seed %d: %s", s, r.Violation)
			}
		}
		atOnce, late = atOnce+first.Hourly, late+second.Hourly
		if first.Hourly > 0 {
			worst = math.Max(worst, second.Hourly/first.Hourly-1)
		}
		failures += len(second.LateWaits)
		for _, wait := range second.LateWaits {
			if longest = max(longest, wait); wait > lateWaitMost+lateAgain {
				t.Errorf("seed %d: launched again %s after a failure, want within %s", s, wait, lateWaitMost+lateAgain)
			}
		}
		t.Logf("seed %d: $%.3f an hour at once, $%.3f late; %d late failures", s, first.Hourly, second.Hourly, len(second.LateWaits))
	}
	t.Logf("$%.3f an hour at once, $%.3f late (%+.2f %%), worst seed %+.2f %%; %d late failures, launched again after %s at most", atOnce, late, 100*(late/atOnce-1), 100*worst, failures, longest)
	if failures == 0 {
		t.Error("no launch failed late")
	}
	if late > atOnce*(1+lateCostMost) {
		t.Errorf("$%.3f an hour, want at most %.0f %% more than $%.3f", late, 100*lateCostMost, atOnce)
	}
}

// TestNobodyWaitsForTypesThatHaveChanged: a cloud that says that its types have changed is asked for them at once, and not when the
// minute is over.
func TestNobodyWaitsForTypesThatHaveChanged(t *testing.T) {
	t.Parallel()
	for s := uint64(1); s <= 5; s++ {
		r := Run(s, Options{Stormy: 5 * time.Minute, Nodes: 6, Without: append(quietly(), LateIDs, LateFailures, LateNotices), With: []Fault{TypesLater}})
		if r.Violation != "" || len(r.LateWaits) == 0 {
			t.Fatalf("seed %d: %d launches after the types came; %s", s, len(r.LateWaits), r.Violation)
		}
		if wait := r.LateWaits[0]; wait > lateWaitMost {
			t.Errorf("seed %d: launched %s after the types came, want within %s", s, wait, lateWaitMost+lateAgain)
		}
	}
}
