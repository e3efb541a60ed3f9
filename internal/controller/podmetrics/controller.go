// Package podmetrics measures how long pods wait: from their creation, and from when we
// saw that they need a node, until they are bound and until they run.
package podmetrics

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Loop measures on the leader only, so that nothing is counted twice. Its fields are set
// once, before Register.
type Loop struct {
	Cache   cache.Cache
	Metrics *observe.Metrics
	Now     func() time.Time
	// Traces may be nil.
	Traces *observe.Traces
	// Single is where the metrics of single pods are served; nil: nowhere.
	Single prometheus.Registerer

	mu      sync.Mutex
	waiting map[types.UID]*wait // guarded by mu; pods that do not run yet
}

// wait is one pod on its way.
type wait struct {
	namespace, name string

	created time.Time
	asked   time.Time // when we saw that it needs a node; zero: it did not
	bound   bool
	// dynamic is the label dynamic_resources: whether the pod has resource claims.
	dynamic string
}

// Register adds the loop to the manager.
func (l *Loop) Register(mgr manager.Manager) error { return mgr.Add(l) }

// NeedLeaderElection returns true: one process at a time measures.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start measures until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	l.mu.Lock()
	l.waiting = map[types.UID]*wait{}
	l.mu.Unlock()
	informer, err := l.Cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: l.report, UpdateFunc: func(_, o any) { l.report(o) }, DeleteFunc: l.forget,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if l.Single != nil {
		g := newGauges(l)
		if err := l.Single.Register(g); err != nil {
			return fmt.Errorf("register metrics of pods: %w", err)
		}
		defer l.Single.Unregister(g)
	}
	<-ctx.Done()
	return informer.RemoveEventHandler(registration)
}

// report sees a pod, and counts that as Karpenter's controller of that name.
func (l *Loop) report(o any) {
	defer l.Metrics.Reconcile("metrics.pod", l.Now)(nil)
	l.see(o)
}

// see follows one pod. A pod that runs when it is first seen is not measured: it waited
// before our time.
func (l *Loop) see(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting[p.UID]
	switch {
	case !translate.Active(p):
		delete(l.waiting, p.UID)
		return
	case w == nil && p.Spec.NodeName != "":
		return
	case w == nil:
		w = &wait{namespace: p.Namespace, name: p.Name, created: p.CreationTimestamp.Time, dynamic: strconv.FormatBool(len(p.Spec.ResourceClaims) > 0)}
		l.waiting[p.UID] = w
	}
	scheduled, reason := condition(p, corev1.PodScheduled)
	if w.asked.IsZero() && reason == corev1.PodReasonUnschedulable {
		w.asked = l.Now()
	}
	if p.Spec.NodeName != "" && !w.bound {
		w.bound = true
		l.Traces.Bound(cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, p.CreationTimestamp.Time, l.Now())
		l.Metrics.PodsBoundDurationSeconds.WithLabelValues(w.dynamic).Observe(since(p.CreationTimestamp.Time, scheduled))
		if !w.asked.IsZero() {
			l.Metrics.PodsProvisioningBoundDurationSeconds.WithLabelValues(w.dynamic).Observe(since(w.asked, l.Now()))
		}
	}
	if ready, _ := condition(p, corev1.PodReady); p.Status.Phase == corev1.PodRunning && !ready.IsZero() {
		l.Metrics.PodsStartupDurationSeconds.Observe(since(p.CreationTimestamp.Time, ready))
		if !w.asked.IsZero() {
			l.Metrics.PodsProvisioningStartupDurationSeconds.Observe(since(w.asked, l.Now()))
		}
		delete(l.waiting, p.UID)
	}
}

func (l *Loop) forget(o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if p, ok := o.(*corev1.Pod); ok {
		l.Traces.PodGone(cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, l.Now())
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, p.UID)
	}
}

// condition returns since when a condition is True, zero if it is not, and its reason.
func condition(p *corev1.Pod, conditionType corev1.PodConditionType) (since time.Time, reason string) {
	for _, c := range p.Status.Conditions {
		if c.Type != conditionType {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			since = c.LastTransitionTime.Time
		}
		return since, c.Reason
	}
	return since, ""
}

// since returns the seconds between two times, none below zero: the API server's clock
// is not ours, and it writes whole seconds.
func since(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }

// gauges are the metrics of single pods that wait. They are served as long as the loop
// runs, and are true at every scrape.
type gauges struct {
	loop *Loop

	unbound, unstarted, provisioningUnbound, provisioningUnstarted, undecided *prometheus.Desc
}

func newGauges(l *Loop) *gauges {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_pods_"+name+"_time_seconds", help, append([]string{"name", "namespace"}, more...), nil)
	}
	return &gauges{
		loop:                  l,
		unbound:               desc("unbound", "How long a pod without a node has been there.", "dynamic_resources"),
		unstarted:             desc("unstarted", "How long a pod that does not run has been there."),
		provisioningUnbound:   desc("provisioning_unbound", "How long ago a pod without a node was first seen to need one.", "dynamic_resources"),
		provisioningUnstarted: desc("provisioning_unstarted", "How long ago a pod that does not run was first seen to need a node."),
		undecided:             desc("provisioning_scheduling_undecided", "How long a pod that needs a node has been without a decision."),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.unbound, g.unstarted, g.provisioningUnbound, g.provisioningUnstarted, g.undecided} {
		ch <- d
	}
}

// Collect sends how long each pod has waited for what it waits for.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	g.loop.mu.Lock()
	defer g.loop.mu.Unlock()
	now, decided := g.loop.Now(), g.loop.Metrics.SchedulerUnfinishedWork.LastEnded()
	for _, w := range g.loop.waiting {
		send := func(d *prometheus.Desc, from time.Time, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, since(from, now), append([]string{w.name, w.namespace}, more...)...)
		}
		send(g.unstarted, w.created)
		if !w.bound {
			send(g.unbound, w.created, w.dynamic)
		}
		if w.asked.IsZero() {
			continue
		}
		send(g.provisioningUnstarted, w.asked)
		if !w.bound {
			send(g.provisioningUnbound, w.asked, w.dynamic)
		}
		if !w.bound && decided.Before(w.asked) {
			send(g.undecided, w.asked)
		}
	}
}
