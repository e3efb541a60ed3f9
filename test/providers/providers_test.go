package providers

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/sim/world"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var (
	hourSeeds  = flag.Uint64("hour-seeds", 1, "how many hours of mixed faults there are for each provider")
	hourFirst  = flag.Uint64("hour-first", 1, "the seed of the first")
	hourLength = flag.Duration("hour-length", 20*time.Minute, "how long an hour of mixed faults is")
)

const (
	// faultLength is how long a single fault rages, and rest how long the world then has to come to rest.
	faultLength = 10 * time.Minute
	rest        = 90 * time.Minute
	// lateSeed is of a world in which launches fail late, if they can: most offerings that others choose are in stock.
	lateSeed = 8
	// nodes is about how many the load needs.
	nodes = 4
	// hourOdds is how much more seldom each fault of the wire is in an hour of all than alone.
	hourOdds = 0.1
)

// trouble is a fault of the wire between product and provider.
type trouble string

// provider is a provider over its wire.
type provider struct {
	// troubles are those of its wire, with the odds that each has alone.
	troubles map[trouble]float64
	// start returns the seam for a world, in which the wire has its troubles.
	start func(t *testing.T, w *wire) func(world.Seam) cloud.Provider
	// without are what its worlds never have.
	without []world.Fault
	// late: it can say that launches are decided later.
	late bool
}

// never are the faults that no world of it has.
func (p provider) never() []world.Fault {
	if p.late {
		return append(p.without, world.LateNotices) // which do not go over the wire here
	}
	return append(p.without, never()...)
}

func providers() map[string]provider {
	return map[string]provider{"remote": remoteProvider(), "clusterapi": clusterAPIProvider(), "kwok": kwokProvider()}
}

// alone are the faults of the world that happen to a provider and its instances, or between its calls.
func alone() []world.Fault {
	return []world.Fault{
		world.LaunchRefused, world.LaunchLost, world.LaunchUnready, world.CloudDown, world.NeverJoins, world.JoinsLate, world.Crash, world.Stopped,
		world.Freeze, world.Reclaim, world.Shortage, world.NodeDeleted, world.ClaimGone, world.Drift,
	}
}

// never is what no world here has: what providers are not asked for, and launches that are decided later, which a provider
// does by itself or not.
func never() []world.Fault {
	return []world.Fault{world.LateIDs, world.LateFailures, world.StuckLaunches, world.LateNotices}
}

// TestSingleFaults has one fault after the other happen by itself to each provider.
func TestSingleFaults(t *testing.T) {
	t.Parallel()
	for name, p := range providers() {
		for _, fault := range alone() {
			if slices.Contains(p.without, fault) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %s", name, fault), func(t *testing.T) {
				t.Parallel()
				play(t, p, 1, nil, &world.Options{Stormy: faultLength, Without: without(fault), With: []world.Fault{fault, world.Scale}}, string(fault))
			})
		}
		for bad, odds := range p.troubles {
			t.Run(fmt.Sprintf("%s, %s", name, bad), func(t *testing.T) {
				t.Parallel()
				play(t, p, 1, map[trouble]float64{bad: odds}, &world.Options{Stormy: faultLength, Without: without(""), With: []world.Fault{world.Scale}}, string(bad))
			})
		}
	}
}

// TestLaunchesThatAreDecidedLater has the cloud accept launches, to each provider that can say so.
func TestLaunchesThatAreDecidedLater(t *testing.T) {
	t.Parallel()
	for name, p := range providers() {
		if !p.late {
			continue
		}
		for _, c := range []struct {
			sign   string
			faults []world.Fault
		}{
			{"", []world.Fault{world.LateIDs}},
			{"late failures", []world.Fault{world.LateFailures, world.ShortAtFirst}},
			{"late failures", []world.Fault{world.LateIDs, world.LateFailures, world.ShortAtFirst}},
			{"launches that are never decided", []world.Fault{world.LateIDs, world.StuckLaunches}},
		} {
			t.Run(fmt.Sprintf("%s, %v", name, c.faults), func(t *testing.T) {
				t.Parallel()
				without := slices.DeleteFunc(without(""), func(f world.Fault) bool { return slices.Contains(c.faults, f) })
				play(t, p, lateSeed, nil, &world.Options{Stormy: 30 * time.Minute, Nodes: 12, Without: without, With: append(c.faults, world.Scale)}, c.sign)
			})
		}
	}
}

// without returns all faults but one, and but the load's coming and going.
func without(but world.Fault) []world.Fault {
	return slices.DeleteFunc(append(world.Faults(), never()...), func(f world.Fault) bool { return f == but || f == world.Scale })
}

// TestHourOfFaults mixes all faults, those of the world and those of the wire.
func TestHourOfFaults(t *testing.T) {
	t.Parallel()
	for name, p := range providers() {
		odds := map[trouble]float64{}
		for bad, alone := range p.troubles {
			odds[bad] = hourOdds * alone
		}
		for seed := *hourFirst; seed < *hourFirst+*hourSeeds; seed++ {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				t.Parallel()
				play(t, p, seed, odds, &world.Options{Stormy: *hourLength, Without: p.never(), With: []world.Fault{world.Scale}}, "")
			})
		}
	}
}

// play runs a world, which must show a sign of the fault and no violation.
func play(t *testing.T, p provider, seed uint64, odds map[trouble]float64, o *world.Options, sign string) {
	t.Helper()
	if (testing.Short() || testkit.Raced) && sign != string(world.LaunchLost) {
		t.Skip("it is played without the race detector, and not in a hurry")
	}
	o.Calm, o.Nodes = rest, cmp.Or(o.Nodes, nodes)
	o.Seam = p.start(t, &wire{rand: rand.New(rand.NewPCG(seed, 0x77697265)), odds: odds})
	if testing.Verbose() && *journal {
		o.Journal = t.Output()
	}
	r := world.Run(seed, *o)
	t.Logf("%s of a cluster, %d events: %v", r.Lasted, r.Events, r.Stats)
	if r.Violation != "" {
		t.Errorf("after %d events: %s", r.Events, r.Violation)
	}
	if r.Stats["instances"] == 0 || sign != "" && r.Stats[sign] == 0 {
		t.Errorf("%d instances were launched, and %q happened %d times", r.Stats["instances"], sign, r.Stats[sign])
	}
}

var journal = flag.Bool("journal", false, "with -v: write what happens into the log")

// wire is what is between product and provider.
type wire struct {
	mu   sync.Mutex
	rand *rand.Rand
	odds map[trouble]float64
	// seam is that of the present life of the product.
	seam world.Seam
	// isUp: the provider is connected, and faults begin.
	isUp bool
}

// draw returns which of several troubles a call has; empty: none.
func (w *wire) draw(of ...trouble) trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isUp || !w.seam.IsStormy() {
		return ""
	}
	for _, bad := range of {
		if w.rand.Float64() < w.odds[bad] {
			w.seam.Count(string(bad))
			return bad
		}
	}
	return ""
}

// isWhole fails the test if a provider's answer to List lacks an instance that the cloud has: what is missing there counts as gone.
func (w *wire) isWhole(ctx context.Context, t *testing.T, listed []cloud.Instance) {
	t.Helper()
	all, err := w.seam.Cloud.List(ctx)
	if err != nil {
		return // the cloud is not there: the next time
	}
	for i := range all {
		if !all[i].Terminating && !slices.ContainsFunc(listed, func(l cloud.Instance) bool { return l.ID == all[i].ID }) {
			t.Errorf("List has %d instances, and lacks %s, which the cloud has", len(listed), all[i].ID)
		}
	}
}

// class is the world's only node class.
func class() cloud.ClassRef {
	return cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}
}

// TestMain has garbage collected less often, as the world's own tests do.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}
