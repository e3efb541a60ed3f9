package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// Pattern is how pods arrive.
type Pattern string

// The patterns. Owners say how many pods there will be, but for Jobs, whose status nobody reads.
const (
	OnePod     Pattern = "one pod"    // a Deployment of one pod
	LargeApp   Pattern = "large app"  // one Deployment of 100 to 400 pods
	SlowApp    Pattern = "slow app"   // one Deployment whose pods pass a slow webhook
	ManyApps   Pattern = "many apps"  // 8 to 24 Deployments that one tool applies
	JobsAtOnce Pattern = "jobs"       // 3 to 6 Jobs with a parallelism of 20 to 80
	CronStorm  Pattern = "cron storm" // 40 to 120 Jobs of few pods at the hour
	Rollout3   Pattern = "rollout"    // three Deployments roll with a surge of 25 %
	Trickle    Pattern = "trickle"    // single pods, one every few seconds for four minutes
	Unknown    Pattern = "no owner"   // pods of a tool whose objects nobody reads, one after the other
)

// Patterns returns all patterns.
func Patterns() []Pattern {
	return []Pattern{OnePod, LargeApp, SlowApp, ManyApps, JobsAtOnce, CronStorm, Rollout3, Trickle, Unknown}
}

// Arrivals is a world with pods that arrive as a pattern says, and nothing else.
type Arrivals struct {
	Pattern Pattern
	// Rule changes what the product launches before a batch window ends; nil: it is the product's.
	Rule func(*provisioning.Loop)
	// Consolidation changes how the product consolidates; nil: it does not.
	Consolidation func(*disruption.Loop)
	// Reclaim: ten minutes after all pods ran the cloud reclaims the instance with the largest share of a workload.
	Reclaim bool
}

// Arrived is what came of arrivals.
type Arrived struct {
	// Waits is, for each pod that arrived, how long after its creation the instance was launched that it
	// was first bound to; 0: before it.
	Waits []time.Duration
	// Launched is how many instances were launched, and GivenBack how many of them were stopped within
	// ten minutes.
	Launched, GivenBack int
	// Price is what all instances cost in dollars an hour when all pods ran first, and PriceLater ten
	// minutes later.
	Price, PriceLater float64
	// Down is the largest share of the reclaimed instance's workload that did not run at once, and DownFor for how long some
	// of it did not.
	Down    float64
	DownFor time.Duration
}

const (
	// arriveAt is when the first pod arrives, and arriveGiveBack for how long nodes are watched.
	arriveAt, arriveGiveBack = 6 * time.Minute, 10 * time.Minute
	// ArrivalsLast is how long a world with arrivals has to last.
	ArrivalsLast = 35 * time.Minute
	// sharedLeast is how many pods a workload has at least of which an instance is reclaimed.
	sharedLeast = 10
)

// arrivals are the pods that arrive, and what is seen of them.
type arrivals struct {
	beside
	pattern  Pattern
	created  map[cluster.Key]time.Time // of pods that are not bound yet
	loads    []*cluster.Workload       // all of them
	expected []*cluster.Workload       // that have yet to be whole
	more     int                       // workloads that have yet to begin
	got      Arrived
	done     bool // all ran
}

func newArrivals(w *World, seed uint64) *arrivals {
	if w.opts.Arrivals == nil {
		return nil
	}
	w.statics.on, w.buffers.on, w.gangs.on, w.reboots.on = false, false, false, false
	return &arrivals{
		beside: beside{w: w, rand: newBeside(w, seed, 0x61727269, "").rand, on: true}, pattern: w.opts.Arrivals.Pattern, created: map[cluster.Key]time.Time{},
	}
}

// pool returns the NodePool of the world.
func (a *arrivals) pool() *karpenterv1.NodePool {
	np := poolOf("general")
	after := 30 * time.Second
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements, requirement(karpenterv1.CapacityTypeLabelKey, "on-demand"))
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpenterv1.NillableDuration{Duration: &after}, Budgets: []karpenterv1.Budget{{Nodes: "10%"}},
	}
	return np
}

// begin makes what runs before, and has the pods arrive later.
func (a *arrivals) begin() {
	w := a.w
	w.workloads.SetPace(one(&a.beside,
		cluster.Pace{QPS: 20, Burst: 30, Least: 4 * time.Millisecond, Most: 25 * time.Millisecond}, // kube-controller-manager's defaults
		cluster.Pace{QPS: 100, Burst: 100, Least: 4 * time.Millisecond, Most: 25 * time.Millisecond},
		cluster.Pace{QPS: 500, Burst: 1000, Least: 3 * time.Millisecond, Most: 15 * time.Millisecond}))
	var before []*cluster.Workload
	for i := range 4 {
		before = append(before, a.workload(fmt.Sprintf("base-%d", i), a.upTo(6, 24)))
		w.workloads.Add(before[i], nil)
	}
	a.loads = slices.Clone(before)
	w.after(arriveAt, func() {
		w.api.Watch(a.observe)
		a.arrive(before)
		a.watch()
	})
}

// workload returns a Deployment's ReplicaSet of so many pods.
func (a *arrivals) workload(name string, pods int) *cluster.Workload {
	cpu := one(&a.beside, int64(100), 250, 500, 900, 1000, 1700, 2000, 3500)
	return &cluster.Workload{
		Name: name, Replicas: pods, CPUMilli: cpu, MemoryMiB: cpu * one(&a.beside, int64(1), 2, 3, 4, 7), GraceSeconds: 5, Described: true,
	}
}

// add begins a workload after a pause.
func (a *arrivals) add(pause time.Duration, load *cluster.Workload) {
	a.more++
	a.w.after(pause, func() {
		a.more--
		a.expected, a.loads = append(a.expected, load), append(a.loads, load)
		a.w.workloads.Add(load, nil)
	})
}

// arrive has the pods of the pattern arrive.
func (a *arrivals) arrive(before []*cluster.Workload) {
	switch a.pattern {
	case OnePod:
		a.add(0, a.workload("app", 1))
	case LargeApp:
		a.add(0, a.workload("app", a.upTo(100, 400)))
	case SlowApp:
		load := a.workload("app", a.upTo(40, 120))
		load.Slow = a.between(150*time.Millisecond, 400*time.Millisecond)
		a.add(0, load)
	case ManyApps:
		pause := time.Duration(0)
		for i := range a.upTo(8, 24) {
			a.add(pause, a.workload(fmt.Sprintf("app-%02d", i), a.upTo(1, 20)))
			pause += a.between(15*time.Millisecond, 90*time.Millisecond)
		}
	case JobsAtOnce:
		for i := range a.upTo(3, 6) {
			a.add(a.between(0, 300*time.Millisecond), a.job(fmt.Sprintf("job-%02d", i), a.upTo(20, 80)))
		}
	case CronStorm:
		for i := range a.upTo(40, 120) {
			a.add(a.between(0, 6*time.Second), a.job(fmt.Sprintf("cron-%03d", i), a.upTo(1, 3)))
		}
	case Rollout3:
		for _, old := range before[:3] {
			a.rollOut(old)
		}
	case Trickle:
		pause := time.Duration(0)
		for i := 0; pause < 4*time.Minute; i++ {
			a.add(pause, a.workload(fmt.Sprintf("app-%03d", i), 1))
			pause += time.Duration(a.rand.ExpFloat64() * float64(4*time.Second))
		}
	case Unknown:
		load, pause := a.workload("step", 1), time.Duration(0)
		for i := range a.upTo(20, 80) {
			step := *load
			step.Name, step.Described = fmt.Sprintf("step-%03d", i), false
			a.add(pause, &step)
			pause += a.between(10*time.Millisecond, 60*time.Millisecond)
		}
	}
}

// job returns a Job: what says how many pods it has is not read.
func (a *arrivals) job(name string, pods int) *cluster.Workload {
	load := a.workload(name, pods)
	load.Described = false
	return load
}

// rollOut replaces the pods of a workload as a Deployment does: a quarter more than there should be, and
// an old one goes for each new one that is ready.
func (a *arrivals) rollOut(old *cluster.Workload) {
	next := *old
	all := old.Replicas
	next.Name, next.Replicas = old.Name+"-next", max(1, all/4)
	load := &cluster.Workload{Name: next.Name, Replicas: next.Replicas, CPUMilli: old.CPUMilli, MemoryMiB: old.MemoryMiB, GraceSeconds: 5, Described: true}
	a.add(0, load)
	var step func()
	step = func() {
		ready := a.ready(load)
		old.Replicas = max(0, min(old.Replicas, all-ready))
		load.Replicas = max(load.Replicas, min(all, all+max(1, all/4)-len(a.w.api.PodsOf(old.Name))))
		a.w.workloads.Wake(old)
		a.w.workloads.Wake(load)
		if ready < all {
			a.w.after(500*time.Millisecond, step)
		}
	}
	a.w.after(time.Second, step)
}

// observe takes note of pods that arrive and are bound.
func (a *arrivals) observe(kind string, was, is client.Object) {
	pod, _ := is.(*corev1.Pod)
	if kind != "Pod" || pod == nil || pod.Labels[cluster.AppLabel] == "" || a.done {
		return
	}
	key := cluster.KeyOf(pod)
	if was == nil {
		a.created[key] = a.w.at
		return
	}
	at, waits := a.created[key]
	if i := a.w.cloud.byNode[pod.Spec.NodeName]; waits && i != nil {
		delete(a.created, key)
		a.got.Waits = append(a.got.Waits, max(0, i.launched.Sub(at)))
	}
}

// watch looks until all pods run, and ten minutes more.
func (a *arrivals) watch() {
	a.w.after(200*time.Millisecond, func() {
		if a.more > 0 || slices.ContainsFunc(a.expected, a.lacks) {
			a.watch()
			return
		}
		a.done, a.got.Price = true, a.w.cloud.costs()
		a.w.after(arriveGiveBack, func() {
			a.got.PriceLater = a.w.cloud.costs()
			if a.w.opts.Arrivals.Reclaim {
				a.reclaim()
			}
		})
	})
}

// lacks reports whether pods of a workload do not run.
func (a *arrivals) lacks(load *cluster.Workload) bool { return a.ready(load) < load.Replicas }

// ready returns how many pods of a workload run.
func (a *arrivals) ready(load *cluster.Workload) (ready int) {
	for _, pod := range a.w.api.PodsOf(load.Name) {
		if cluster.IsReady(pod) {
			ready++
		}
	}
	return ready
}

// reclaim stops the instance with the largest share of a workload, and looks what of that runs until it is whole again.
func (a *arrivals) reclaim() {
	var victim *instance
	var load *cluster.Workload
	largest := 0.0
	for _, l := range a.loads {
		on := map[*instance]int{}
		for _, pod := range a.w.api.PodsOf(l.Name) {
			i := a.w.cloud.byNode[pod.Spec.NodeName]
			if on[i]++; i == nil || l.Replicas < sharedLeast {
				continue
			}
			if share := float64(on[i]) / float64(l.Replicas); share > largest {
				victim, load, largest = i, l, share
			}
		}
	}
	if victim == nil {
		return
	}
	began := a.w.at
	a.w.cloud.stop(victim, "reclaimed")
	var observe func()
	observe = func() {
		down := 1 - float64(a.ready(load))/float64(load.Replicas)
		a.got.Down = max(a.got.Down, down)
		if a.got.Down > 0 && down <= 0 {
			a.got.DownFor = a.w.at.Sub(began)
			return
		}
		a.w.after(200*time.Millisecond, observe)
	}
	observe()
}

// launches counts an instance.
func (a *arrivals) launches() {
	if a != nil && a.w.at.Sub(start) >= arriveAt {
		a.got.Launched++
	}
}

// stops counts an instance that is given back.
func (a *arrivals) stops(i *instance) {
	if a != nil && i.launched.Sub(start) >= arriveAt && a.w.at.Sub(i.launched) <= arriveGiveBack {
		a.got.GivenBack++
	}
}

func (a *arrivals) result() Arrived {
	if a == nil {
		return Arrived{}
	}
	return a.got
}
