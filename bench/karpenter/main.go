// Command karpenter solves one scenario with the scheduler of published Karpenter, used
// as a library with one worker, and reports plan and cost. A scenario with nodes and no
// pending pods it consolidates.
//
// Read main.go and plan.go (pending pods), consolidate.go and world.go (consolidation),
// convert.go (a scenario in Karpenter's words).
//
// What is measured is its Solve alone: building the scheduler and its topology, and
// turning scenario into objects and answer into plan, are not counted.
package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/dovetail-sh/dovetail/bench/measure"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

func main() {
	log.SetLogger(logr.Discard())
	limit := stop()
	measure.Main(func(s *scenario.Scenario) (measure.Report, error) { return solve(s, *limit) })
}

func solve(s *scenario.Scenario, limit time.Duration) (measure.Report, error) {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"),
		&options.Options{IgnoreDRARequests: true, MinValuesPolicy: options.MinValuesPolicyStrict, PreferencePolicy: options.PreferencePolicyRespect})
	c := convert(s)
	if s.Consolidates() {
		return consolidate(ctx, c, limit)
	}
	if len(s.Nodes) > 0 {
		return provision(ctx, c)
	}
	var results *scheduling.Results
	cost, err := measure.Repeat(func() (func() error, error) {
		pods := c.pods()
		scheduler, err := newScheduler(ctx, c, pods)
		if err != nil {
			return nil, err
		}
		return func() error {
			r, err := scheduler.Solve(ctx, pods)
			if results == nil {
				results = &r
			}
			return err
		}, nil
	})
	if err != nil {
		return measure.Report{}, err
	}
	p, err := c.plan(results)
	return measure.Report{Cost: cost, Plan: p}, err
}

// provision places pending pods in a cluster that has nodes.
func provision(ctx context.Context, c *converted) (measure.Report, error) {
	var w *world
	var results *scheduling.Results
	cost, err := measure.Repeat(func() (func() error, error) {
		var err error
		if w, err = newWorld(ctx, c); err != nil {
			return nil, err
		}
		pods := w.pending()
		scheduler, err := w.provisioner.NewScheduler(ctx, pods, w.cluster.DeepCopyNodes(), sets.New[types.UID](), scheduling.NumConcurrentReconciles(1))
		if err != nil {
			return nil, err
		}
		return func() error {
			r, err := scheduler.Solve(ctx, pods)
			results = &r
			return err
		}, nil
	})
	if err != nil {
		return measure.Report{}, err
	}
	p, err := c.plan(results)
	return measure.Report{Cost: cost, Plan: p}, err
}

func newScheduler(ctx context.Context, c *converted, pods []*corev1.Pod) (*scheduling.Scheduler, error) {
	one := scheduling.NumConcurrentReconciles(1)
	kube, now := fake.NewClientBuilder().Build(), clock.RealClock{}
	cluster := state.NewCluster(now, kube, nil)
	topology, err := scheduling.NewTopology(ctx, kube, cluster, nil, c.pools, c.types, pods, one)
	if err != nil {
		return nil, err
	}
	return scheduling.NewScheduler(ctx, kube, c.pools, cluster, nil, topology, c.types, c.daemons,
		events.NewRecorder(&record.FakeRecorder{}), now, nil, nil, one), nil
}
