package world

import (
	"context"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// restIn is how long the calm must be for the world to be asked for rest: nodes are young for
// an hour, in which consolidation spares them. It gets afterHeld more after the last drain that
// waited for its deadline, or the last removal for money, up to heldMost longer than was asked for,
// and still more as long as what runs got cheaper each time: pods that were moved are in cooldown for an
// hour and more, so what takes the place of ten nodes that drifted gets cheaper in rounds.
const (
	restIn    = 90 * time.Minute
	afterHeld = 90 * time.Minute
	heldMost  = 4 * time.Hour
)

// Run plays a seed to its end or to its first violation.
func Run(seed uint64, opts Options) Result {
	w := newWorld(seed, opts)
	closeJournal := w.keepDecisions()
	w.play()
	closeJournal()
	return Result{
		Hash: w.sum.Sum64(), Events: w.done, Lasted: w.at.Sub(start), NodeHours: w.checks.nodeHours,
		Arrived: w.arrivals.result(),
		Stats:   w.Stats, Work: w.work, Hourly: w.cloud.costs(), LateWaits: w.late.waits, Violation: w.said,
	}
}

// newWorld returns the world of a seed before anything happens.
func newWorld(seed uint64, opts Options) *World {
	w := &World{
		opts: opts, rand: rand.New(rand.NewPCG(seed, 0x646f7665)), at: start,
		sum: fnv.New64a(), Stats: map[string]int{}, work: map[string]int{},
	}
	w.cloud = newCloud(w)
	w.newCluster()
	w.checks = newChecks(w)
	w.chaos = newChaos(w)
	w.tenant = newTenant(w, seed)
	w.statics, w.buffers, w.gangs = newStatics(w, seed), newBuffers(w, seed), newGangs(w, seed)
	w.reboots = newReboots(w, seed)
	w.arrivals = newArrivals(w, seed)
	w.late = newLateLaunches(w, seed)
	return w
}

// newCluster makes the cluster. It runs on the world's clock and random source.
func (w *World) newCluster() {
	w.cluster = cluster.New(&cluster.Config{
		Clock: clock{w}, Instances: w.cloud, Between: w.between,
		Hooks: cluster.Hooks{
			Note: w.note, Count: w.count,
			Unchanged:    func(kind string, o client.Object) { w.checks.idleWrite(kind, o) },
			Evicted:      func(pod *corev1.Pod) { w.checks.evicted(pod) },
			DetachesLate: func() bool { return w.chaos.draw(volumeFaults) == DetachLate },
		},
	})
	w.api, w.workloads = w.cluster.API, w.cluster.Workloads
}

// clock is the world's as the cluster has it.
type clock struct{ w *World }

// Now returns the time of the world.
func (c clock) Now() time.Time { return c.w.at }

// After makes an event of the world.
func (c clock) After(pause time.Duration, do func()) { c.w.after(pause, do) }

// keepDecisions opens the product's journal, if one is wanted, and returns what closes it.
func (w *World) keepDecisions() func() {
	if w.opts.Decisions == "" {
		return func() {}
	}
	j, err := journal.Open(journal.Options{
		Dir: w.opts.Decisions, DiskBytes: 1 << 30, Version: "world", Now: func() time.Time { return w.at },
		Log: slog.New(slog.DiscardHandler), Count: func(record.Loop, string) {},
	})
	if err != nil {
		panic(err)
	}
	w.decisions = j
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	writing.Go(func() { j.Run(ctx) })
	return func() {
		cancel()
		writing.Wait()
	}
}

// play runs events until the end or the first violation.
func (w *World) play() {
	w.chaos.begin()
	end := start.Add(w.opts.Stormy + w.opts.Calm)
	most, cost := end.Add(heldMost), math.Inf(1)
	for {
		w.playUntil(end)
		rest := w.checks.lastHeld.Add(afterHeld)
		if w.said != "" || w.opts.Calm < restIn || !rest.After(end) {
			break
		}
		costs := w.cloud.costs()
		if rest.After(most) && costs >= cost {
			if !end.Before(most) {
				break
			}
			rest = most
		}
		end, cost = rest, costs
	}
	if w.said == "" {
		w.at = end
		w.checks.atRest()
	}
	w.process.end()
}

func (w *World) playUntil(end time.Time) {
	for w.said == "" && len(w.events) > 0 && !w.events[0].at.After(end) {
		w.next()
	}
}
