package clusterapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// noticeFirst and noticeMost bound the wait before a notice is repeated that could not be acted on,
	// and before the management cluster is asked again.
	noticeFirst, noticeMost = 500 * time.Millisecond, 30 * time.Second
	// replaceWithin is how long a Machine that somebody deletes waits for its node to be replaced.
	replaceWithin = 10 * time.Minute
)

// Watch reports what becomes of Machines: a failed launch, a provider ID, a deletion by somebody else, a
// health check that has failed.
func (p *Provider) Watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	wait := noticeFirst
	for ctx.Err() == nil {
		err := p.watch(ctx, report)
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("Machines cannot be watched, so deletions and failures are noticed late", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, noticeMost)
	}
}

// watch runs an informer of Machines until the context ends. An error means that it could not begin.
func (p *Provider) watch(ctx context.Context, report func(context.Context, cloud.Notice) error) error {
	informer, err := p.informer(ctx)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](noticeFirst, noticeMost))
	enqueue := func(o any) {
		if object, ok := o.(*unstructured.Unstructured); ok {
			queue.Add(client.ObjectKeyFromObject(object))
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) }, DeleteFunc: func(o any) {
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			enqueue(o)
		},
	}); err != nil {
		return fmt.Errorf("watch %ss: %w", kindMachine, err)
	}
	var background sync.WaitGroup
	background.Go(func() { informer.RunWithContext(ctx) })
	background.Go(func() {
		<-ctx.Done()
		queue.ShutDown()
	})
	r := &reporter{provider: p, report: report, last: map[client.ObjectKey]seen{}}
	for {
		key, done := queue.Get()
		if done {
			break
		}
		object, exists, _ := informer.GetStore().GetByKey(key.String()) // it never fails
		if err := r.reconcile(ctx, key, object, exists); err != nil && ctx.Err() == nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
	background.Wait()
	return nil
}

// informer returns an informer of our Machines.
func (p *Provider) informer(ctx context.Context) (toolscache.SharedIndexInformer, error) {
	kind, err := p.mgmt.core(kindMachine)
	if err != nil {
		return nil, err
	}
	selector, err := p.ownedBy(ctx)
	if err != nil {
		return nil, err
	}
	return p.mgmt.informer(kind, selector), nil
}

// seen is what was last reported of a Machine: its last notice, and the provider ID that it had.
type seen struct {
	kind cloud.NoticeKind
	id   string
	ends time.Time
}

// reporter reports notices about Machines, each once.
type reporter struct {
	provider *Provider
	report   func(context.Context, cloud.Notice) error
	// last has an entry for each Machine that exists.
	last map[client.ObjectKey]seen
}

// reconcile reports what a Machine says.
func (r *reporter) reconcile(ctx context.Context, key client.ObjectKey, o any, exists bool) error {
	object, ok := o.(*unstructured.Unstructured)
	if !exists || !ok {
		was, known := r.last[key]
		if known && was.kind != cloud.Ended {
			id := was.id
			if id == "" {
				id = idPrefix + key.String()
			}
			if err := r.report(ctx, cloud.Notice{Kind: cloud.Ended, InstanceID: id}); err != nil {
				return err
			}
		}
		delete(r.last, key)
		return nil
	}
	failure, err := r.provider.failure(ctx, object)
	if err != nil {
		return err
	}
	was, known := r.last[key]
	now := seen{id: fields(object.Object).text("spec", "providerID")}
	if now.id != "" {
		r.provider.mgmt.remember(now.id, key)
	}
	n := noticeOf(object, failure)
	if n != nil {
		now.kind, now.ends = n.Kind, n.Ends
	}
	if known && now == was {
		return nil
	}
	if now.id != "" && was.id == "" {
		if err := r.report(ctx, cloud.Notice{Kind: cloud.LaunchChanged, InstanceID: provisionalID(object)}); err != nil {
			return err
		}
	}
	if n != nil {
		if err := r.report(ctx, *n); err != nil {
			return err
		}
	}
	r.last[key] = now
	return nil
}

// noticeOf returns what there is to say about a Machine; nil: nothing.
func noticeOf(object *unstructured.Unstructured, failure *cloud.Failure) *cloud.Notice {
	n := &cloud.Notice{InstanceID: fields(object.Object).text("spec", "providerID")}
	if n.InstanceID == "" {
		n.InstanceID = provisionalID(object)
	}
	deleted := object.GetDeletionTimestamp()
	switch {
	case deleted != nil && terminating(object):
		n.Kind = cloud.Ended
	case deleted != nil:
		n.Kind, n.Ends = cloud.MaintenanceScheduled, deleted.Add(replaceWithin)
	case failure != nil:
		n.Kind, n.Failure = cloud.LaunchFailed, failure
	default:
		since, unhealthy := unhealthySince(object)
		if !unhealthy {
			return nil
		}
		n.Kind, n.Ends = cloud.MaintenanceScheduled, since.Add(replaceWithin)
	}
	return n
}

// unhealthySince returns since when a MachineHealthCheck has wanted a Machine to be replaced. Nobody else
// does that for one without a MachineSet.
func unhealthySince(object *unstructured.Unstructured) (since time.Time, unhealthy bool) {
	for _, c := range fields(object.Object).list("status", "conditions") {
		if c.text("type") == "OwnerRemediated" && c.text("status") == "False" {
			at, err := time.Parse(time.RFC3339, c.text("lastTransitionTime"))
			return at, err == nil
		}
	}
	return time.Time{}, false
}
