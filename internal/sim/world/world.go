package world

import (
	"container/heap"
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// start is when every world begins.
var start = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// Options say what happens in a world beside its seed.
type Options struct {
	// Stormy is how long faults and users rage, Calm how long the world then has to come to
	// rest.
	Stormy, Calm time.Duration
	// Nodes is about how many nodes the load needs; zero: the seed decides.
	Nodes int
	// Ordinary has every fault strike, as seldom as on a bad day of a real cluster, and the load
	// follow the hour.
	Ordinary bool
	// Without are faults that do not happen, by name.
	Without []Fault
	// Mutant changes what the product sees or does; nil: nothing.
	Mutant *Mutant
	// Journal gets a line for each thing that happens; nil: nobody does.
	Journal io.Writer
	// Decisions is a directory for the product's own journal; empty: none is kept.
	Decisions string
}

// World is one run.
type World struct {
	opts Options
	rand *rand.Rand
	// at is the time, seq numbers the events.
	at     time.Time
	events events
	seq    uint64
	done   uint64

	cluster   *cluster.Cluster
	api       *cluster.API       // the cluster's
	workloads *cluster.Workloads // the cluster's
	cloud     *cloudSim
	chaos     *chaos
	checks    *checks
	tenant    *tenant
	// process leads. former led before and does not know yet that it no more does; nil: nobody.
	process, former *process
	// decisions is the product's own journal; nil: none is kept.
	decisions *journal.Journal

	// said is the first violation.
	said string
	sum  hash.Hash64
	line []byte
	// Stats counts what happened, work what the product looked at, by name.
	Stats, work map[string]int
}

// Result is what came of a run.
type Result struct {
	// Hash is that of the journal.
	Hash uint64
	// Events is how many there were, Lasted how much time they took in the world.
	Events uint64
	Lasted time.Duration
	// NodeHours is the time that nodes were there, summed.
	NodeHours float64
	// Stats is how often what happened, Work how often each loop and each controller looked.
	Stats, Work map[string]int
	// Violation says what must not happen and did; empty: nothing.
	Violation string
}

// event is something that happens at a time: to a process, unless it has died by then; nil: to
// the world. What news does happens while the process waits for an answer, too.
type event struct {
	at   time.Time
	seq  uint64
	to   *process
	news bool
	what func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}

// Run plays a seed to its end or to its first violation.
func Run(seed uint64, opts Options) Result {
	w := &World{
		opts: opts, rand: rand.New(rand.NewPCG(seed, 0x646f7665)), at: start,
		sum: fnv.New64a(), Stats: map[string]int{}, work: map[string]int{},
	}
	w.cloud = newCloud(w)
	w.newCluster()
	w.checks = newChecks(w)
	w.chaos = newChaos(w)
	w.tenant = newTenant(w, seed)
	closeJournal := w.keepDecisions()
	w.play()
	closeJournal()
	return Result{
		Hash: w.sum.Sum64(), Events: w.done, Lasted: w.at.Sub(start), NodeHours: w.checks.nodeHours,
		Stats: w.Stats, Work: w.work, Violation: w.said,
	}
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

// restIn is how long the calm must be for the world to be asked for rest: nodes are young for
// an hour, in which consolidation spares them. It gets afterHeld more after the last drain that
// waited for its deadline, or the last removal for money, up to heldMost longer than was asked for,
// and still more as long as what runs got cheaper each time: pods that were moved are let be for an
// hour and more, so what takes the place of ten nodes that drifted gets cheaper in rounds.
const (
	restIn    = 90 * time.Minute
	afterHeld = 90 * time.Minute
	heldMost  = 4 * time.Hour
)

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

// next makes the next event happen.
func (w *World) next() {
	e := heap.Pop(&w.events).(event)
	if e.to != nil && e.to.stopped.After(e.at) {
		e.at = e.to.stopped
		heap.Push(&w.events, e)
		return
	}
	if e.at.After(w.at) {
		w.at = e.at
	}
	w.done++
	e.what()
	for _, p := range w.processes() {
		p.readNews()
	}
}

// elapse has time go by while a process waits for an answer: it hears what happens, but its loops
// and controllers, and those of another, do nothing until then.
func (w *World) elapse(pause time.Duration) {
	until := w.at.Add(pause)
	var waiting []event
	for w.said == "" && len(w.events) > 0 && !w.events[0].at.After(until) {
		if e := w.events[0]; e.to != nil && !e.news {
			waiting = append(waiting, heap.Pop(&w.events).(event))
			continue
		}
		w.next()
	}
	w.at = until
	for _, e := range waiting {
		if !e.to.dead {
			heap.Push(&w.events, e)
		}
	}
}

// processes returns those that live.
func (w *World) processes() (all []*process) {
	for _, p := range []*process{w.former, w.process} {
		if p != nil && !p.dead {
			all = append(all, p)
		}
	}
	return all
}

// after makes something happen after a pause.
func (w *World) after(pause time.Duration, what func()) {
	w.afterTo(nil, pause, what)
}

func (w *World) afterTo(p *process, pause time.Duration, what func()) {
	w.push(event{to: p, what: what}, pause)
}

func (w *World) push(e event, pause time.Duration) {
	w.seq++
	e.at, e.seq = w.at.Add(pause), w.seq
	heap.Push(&w.events, e)
}

// forget drops what was to happen to a process.
func (w *World) forget(p *process) {
	w.events = slices.DeleteFunc(w.events, func(e event) bool { return e.to == p })
	heap.Init(&w.events)
}

// every makes something happen again and again.
func (w *World) every(pause time.Duration, what func()) {
	w.after(pause, func() {
		what()
		w.every(pause, what)
	})
}

// between returns a random duration.
func (w *World) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

// chance tells whether something of that probability happens.
func (w *World) chance(p float64) bool { return w.rand.Float64() < p }

// pick returns one of several.
func pick[T any](w *World, of []T) T { return of[w.rand.IntN(len(of))] }

// note writes a line into the journal.
func (w *World) note(format string, args ...any) {
	w.line = fmt.Appendf(w.line[:0], "%12.3f ", w.at.Sub(start).Seconds())
	w.line = fmt.Appendf(w.line, format, args...)
	w.line = append(w.line, '\n')
	_, _ = w.sum.Write(w.line) // never fails
	if w.opts.Journal != nil {
		_, _ = w.opts.Journal.Write(w.line) // a journal that cannot be written is not worth a run
	}
}

// count counts something that happened.
func (w *World) count(what string) { w.Stats[what]++ }

// fail takes note of a violation, which ends the run after this event.
func (w *World) fail(format string, args ...any) {
	if w.said != "" {
		return
	}
	w.said = fmt.Sprintf("%s after %s: ", w.at.Format("15:04:05.000"), w.at.Sub(start).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
	w.note("VIOLATION %s", w.said)
}
