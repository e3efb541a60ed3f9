package world

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/interruption"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	corecluster "github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// breath is how soon after a trigger a loop runs.
const breath = 2 * time.Millisecond

// startProcess begins a new life.
func (w *World) startProcess() {
	p := newProcess(w)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.process = p
	p.informers = newInformers(p)
	p.client = p.newClient(p.informers.Reader)
	settings := &operator.Settings{}
	settings.AddFlags(pflag.NewFlagSet("world", pflag.ContinueOnError))
	settings.FeatureGates = w.gates()
	seam := p.seam()
	p.parts = &operator.Parts{
		Manager: &fakeManager{p: p, client: apply.ReadYourWrites(p.client, p.now)}, Settings: settings, Cloud: seam, Nominations: p.client, Now: p.now,
		Events:  observe.NewRecorder(eventRecorder{w: w}, p.now),
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Conditions: observe.NewConditions(seam.ClassKinds(), p.now),
		Log: p.log(), Journal: w.decisions, Later: p.later, Suffix: p.w.api.Suffix, OneByOne: true,
	}
	if err := p.parts.Assemble(p.ctx); err != nil {
		panic(err)
	}
	if w.gangs.on {
		if err := p.parts.FeedPodGroups(p.ctx); err != nil {
			panic(err)
		}
	}
	for _, c := range p.warm {
		if err := c.Warmup(p.ctx); err != nil {
			panic(err)
		}
	}
	for _, n := range p.informers.sorted {
		p.after(w.between(10*time.Millisecond, 400*time.Millisecond), func() { n.relist(true) })
	}
	p.after(w.between(500*time.Millisecond, 2*time.Second), p.run)
}

// seam returns the process's provider.
func (p *process) seam() cloud.Provider {
	w := p.w
	own := &provider{p: p, cloud: w.cloud}
	if w.opts.Seam == nil {
		return own
	}
	return w.opts.Seam(Seam{
		Cloud: own, Types: w.cloud.types, Now: p.now, Time: func() time.Time { return w.at }, May: p.mayAct,
		IsStormy: func() bool { return w.chaos.stormy }, Count: w.count,
	})
}

// gates returns the feature gates: those of what there is in this world are on.
func (w *World) gates() string {
	gates := "NodeRepair=true,SpotToSpotConsolidation=true"
	if w.statics.on {
		gates += ",StaticCapacity=true"
	}
	if w.buffers.on {
		gates += ",CapacityBuffer=true"
	}
	return gates
}

// run lets the loops begin.
func (p *process) run() {
	p.w.note("process runs")
	p.running = true
	for _, l := range p.loops {
		p.reconcileIn(l, 0)
	}
}

// reconcileIn has a loop run after a pause, unless it is due sooner.
func (p *process) reconcileIn(l *looper, pause time.Duration) {
	due := p.w.at.Add(pause)
	if !l.due.IsZero() && !due.Before(l.due) {
		return
	}
	l.due = due
	p.after(pause, func() {
		if !l.due.Equal(due) {
			return
		}
		l.due = time.Time{}
		p.w.work[l.name]++
		p.act(func() {
			if pause := l.Reconcile(p.ctx); pause > 0 {
				p.reconcileIn(l, pause)
			}
		})
	})
}

// runTriggered has the loops run that have a trigger.
func (p *process) runTriggered() {
	if !p.running || p.dead {
		return
	}
	for _, l := range p.loops {
		select {
		case <-l.triggers:
			p.reconcileIn(l, breath)
		default:
		}
	}
}

// eventRecorder notes events.
type eventRecorder struct{ w *World }

// Event notes one.
func (e eventRecorder) Event(o runtime.Object, _, reason, message string) {
	name := ""
	if obj, ok := o.(client.Object); ok {
		name = obj.GetName()
	}
	e.w.note("event %s %s: %s", name, reason, message)
	if obj, ok := o.(client.Object); ok {
		e.w.tenant.event(obj, reason, message)
	}
}

// Eventf is not used.
func (eventRecorder) Eventf(runtime.Object, string, string, string, ...any) {}

// AnnotatedEventf is not used.
func (eventRecorder) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}

// fakeManager takes what production adds to a manager, to be driven by the world.
type fakeManager struct {
	manager.Manager // of which nothing else is used
	p               *process
	client          client.Client
}

// GetClient returns the process's client, as production has it.
func (m *fakeManager) GetClient() client.Client { return m.client }

// GetAPIReader reads from the server itself.
func (m *fakeManager) GetAPIReader() client.Reader {
	return m.p.reader(m.p.w.api.Shelf)
}

// GetCache returns the informers of the process.
func (m *fakeManager) GetCache() cache.Cache { return m.p.informers }

// GetFieldIndexer adds indexes to that.
func (m *fakeManager) GetFieldIndexer() client.FieldIndexer { return m.p.informers }

// GetScheme returns the kinds.
func (m *fakeManager) GetScheme() *runtime.Scheme { return m.p.scheme }

// GetLogger is for controller-runtime's own lines, which nobody reads here.
func (m *fakeManager) GetLogger() logr.Logger { return logr.Discard() }

// GetControllerOptions has controllers subscribe without starting workers, and panic. Their pauses
// are those of production's queue, which is controller-runtime's own.
func (m *fakeManager) GetControllerOptions() config.Controller {
	yes, no := true, false
	return config.Controller{SkipNameValidation: &yes, EnableWarmup: &yes, UsePriorityQueue: &yes, RecoverPanic: &no, Logger: logr.Discard()}
}

// Add takes a loop or a controller. What only measures is left out.
func (m *fakeManager) Add(r manager.Runnable) error {
	p := m.p
	switch r := r.(type) {
	case *provisioning.Loop:
		r.Now, r.Pack.Effort = p.thinking, p.w.tenant.effort()
		if a := p.w.opts.Arrivals; a != nil && a.Rule != nil {
			a.Rule(r)
		}
	case *disruption.Loop:
		r.Now = p.thinking
		if m := p.w.opts.Mutant; m != nil && m.Unescalated {
			r.Reboots = unescalated{r.Reboots}
		}
		if a := p.w.opts.Arrivals; a != nil && a.Consolidation != nil {
			a.Consolidation(r)
		}
	}
	switch r := r.(type) {
	case *interruption.Loop:
		p.interruption = r
	case *apply.Evictor:
		q := newQueue(p, workqueue.NewTypedItemExponentialFailureRateLimiter[corecluster.PodRef](100*time.Millisecond, 10*time.Second))
		q.work = func(corecluster.PodRef) { r.Next(p.ctx) }
		r.Queue = q
	case loop.Reconciler:
		name := strings.TrimPrefix(fmt.Sprintf("%T", r), "*")
		if l, ok := r.(*provisioning.Loop); ok && p.w.opts.Mutant != nil && p.w.opts.Mutant.Unquarantined {
			r = forgetful{l, l, func() { l.Quarantine = &apply.Quarantine{} }}
		}
		l := &looper{Reconciler: r, name: name}
		if n, ok := r.(loop.Triggered); ok {
			l.triggers = n.Triggers()
		}
		p.loops = append(p.loops, l)
	case interface {
		reconcile.Reconciler
		Warmup(ctx context.Context) error
	}:
		drive(p, r)
		p.warm = append(p.warm, r)
	}
	return nil
}

// drive gives a controller of controller-runtime a queue of the world's. The field is
// exported, but its type is not.
func drive(p *process, c reconcile.Reconciler) {
	made := func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		if _, ok := limiter.(*workqueue.TypedItemExponentialFailureRateLimiter[reconcile.Request]); !ok {
			panic(fmt.Sprintf("the pauses of %s may hang on a real clock: %T", name, limiter))
		}
		q := newQueue(p, limiter)
		q.work = func(request reconcile.Request) {
			result, err := c.Reconcile(p.ctx, request)
			p.w.work[name]++
			p.w.checks.reconciled(name, request)
			switch {
			case err != nil:
				q.AddRateLimited(request)
			case result.RequeueAfter > 0:
				q.Forget(request)
				q.AddAfter(request, result.RequeueAfter)
			default:
				q.Forget(request)
			}
		}
		return q
	}
	reflect.ValueOf(c).Elem().FieldByName("NewQueue").Set(reflect.ValueOf(made))
}
