// Package deletioncost are the loops that say to ReplicaSets, by the annotation pod-deletion-cost,
// from which nodes they are to take pods first when they are scaled down. One decides, by
// core/deletioncost, and the other writes. Both exist only with the gate PodDeletionCostManagement.
package deletioncost

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	core "github.com/dovetail-sh/dovetail/internal/core/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	rankName, queueName = "pod.deletioncost", "pod.deletioncost.queue"
	// period is how often the costs are decided, soon when that is tried again before the caches
	// are synced.
	period, soon = time.Minute, time.Second
	// nodesMost is how many nodes are written in one period at most, besides those that go away.
	nodesMost   = 50
	nodesAtOnce = 10
	retryFirst  = time.Second
	retryMost   = time.Minute
)

// Results of one write, as the metric has them.
const (
	updated       = "updated"
	skipUnchanged = "skipped_unchanged"
	skipNotFound  = "skipped_notfound"
	skipConflict  = "skipped_conflict"
	failed        = "error"
)

// Controllers are the two loops. Their fields are set once, before Register.
type Controllers struct {
	Client  client.Client
	Mirror  *mirror.Store
	Synced  func() bool
	Metrics *observe.Metrics

	decided  uint64 // what the mirror had observed when the costs were decided last
	complete bool   // all that differed then is written or queued

	mu     sync.Mutex
	queue  func(node string)
	queued map[string]plan.DeletionCost // guarded by mu; by node
}

// Register adds the controllers to a manager. The cache must have mirror's indexes.
func (c *Controllers) Register(mgr ctrl.Manager) error {
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})
	if err := ctrl.NewControllerManagedBy(mgr).Named(rankName).WithOptions(controller.Options{NewQueue: loop.NewQueue}).
		WatchesRawSource(once).Complete(reconcile.Func(c.Reconcile)); err != nil {
		return fmt.Errorf("register %s: %w", rankName, err)
	}
	writes := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = func(node string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: node}})
		}
		return nil
	})
	l := c.writer()
	l.Watch = func(b *builder.Builder) *builder.Builder { return b.WatchesRawSource(writes) }
	return l.Register(mgr)
}

func (c *Controllers) writer() *loop.Controller[*corev1.Node] {
	return &loop.Controller[*corev1.Node]{
		Name: queueName, Client: c.Client, AtOnce: nodesAtOnce, RetryFirst: retryFirst, RetryMost: retryMost, Do: c.write, Gone: c.forget,
	}
}

// Reconcile decides the costs, if anything was observed since they were decided last, and queues the
// nodes whose pods say otherwise.
func (c *Controllers) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if !c.Synced() {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	observed := c.Mirror.EventCount()
	if c.complete && observed == c.decided {
		return reconcile.Result{RequeueAfter: period}, nil
	}
	complete, err := c.decide(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.decided, c.complete = observed, complete
	return reconcile.Result{RequeueAfter: period}, nil
}

// decide queues the nodes whose pods do not have their costs, and reports whether those were all.
func (c *Controllers) decide(ctx context.Context) (complete bool, err error) {
	pending := map[string]int{} // nodes by pool
	left := nodesMost
	complete = true
	for _, cost := range core.Rank(c.Mirror.Snapshot()) {
		pods, err := c.podsOn(ctx, cost.Node)
		if err != nil {
			return false, err
		}
		if !differs(pods, &cost) {
			continue
		}
		pending[cost.Pool]++
		switch {
		case cost.Going:
		case left > 0:
			left--
		default:
			complete = false
			continue
		}
		c.enqueue(cost)
	}
	c.Metrics.PodDeletionCostPending.Reset()
	for pool, n := range pending {
		c.Metrics.PodDeletionCostPending.WithLabelValues(pool).Set(float64(n))
	}
	return complete, nil
}

func (c *Controllers) enqueue(cost plan.DeletionCost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued == nil {
		c.queued = map[string]plan.DeletionCost{}
	}
	c.queued[cost.Node] = cost
	if c.queue != nil {
		c.queue(cost.Node)
	}
}

// podsOn returns the pods of a node that a ReplicaSet may delete.
func (c *Controllers) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	all, err := mirror.PodsOn(ctx, c.Client, node)
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for i := range all {
		if owner := metav1.GetControllerOfNoCopy(&all[i]); owner != nil && owner.Kind == "ReplicaSet" && translate.Active(&all[i]) {
			pods = append(pods, all[i])
		}
	}
	return pods, nil
}

// differs reports whether any of the pods has another cost.
func differs(pods []corev1.Pod, cost *plan.DeletionCost) bool {
	for i := range pods {
		if !has(&pods[i], cost) {
			return true
		}
	}
	return false
}

// has reports whether a pod has the cost.
func has(pod *corev1.Pod, cost *plan.DeletionCost) bool {
	text, ok := pod.Annotations[corev1.PodDeletionCost]
	return ok != cost.None && (cost.None || text == strconv.Itoa(int(cost.Cost)))
}

// write writes the cost of a node on its pods.
func (c *Controllers) write(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	c.mu.Lock()
	cost, ok := c.queued[node.Name]
	c.mu.Unlock()
	if !ok {
		return reconcile.Result{}, nil
	}
	pods, err := c.podsOn(ctx, node.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	errs := make([]error, 0, len(pods))
	for i := range pods {
		errs = append(errs, c.annotate(ctx, &pods[i], &cost))
	}
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued[node.Name] == cost { // else it was decided anew, and is queued again
		delete(c.queued, node.Name)
	}
	return reconcile.Result{}, nil
}

// annotate writes a cost on a pod, which is the cache's own. A pod that has changed or gone is left
// to the next decision.
func (c *Controllers) annotate(ctx context.Context, pod *corev1.Pod, cost *plan.DeletionCost) error {
	count := func(result string) { c.Metrics.PodDeletionCostWrites.WithLabelValues(result).Inc() }
	if has(pod, cost) {
		count(skipUnchanged)
		return nil
	}
	after := pod.DeepCopy()
	if cost.None {
		delete(after.Annotations, corev1.PodDeletionCost)
	} else {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, corev1.PodDeletionCost, strconv.Itoa(int(cost.Cost)))
	}
	err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
	switch {
	case err == nil:
		count(updated)
	case apierrors.IsNotFound(err):
		count(skipNotFound)
	case apierrors.IsConflict(err):
		count(skipConflict)
	default:
		count(failed)
		return fmt.Errorf("write the deletion cost of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// forget drops what was to be written on the pods of a node that is gone.
func (c *Controllers) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queued, node)
}
