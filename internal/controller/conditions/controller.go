// Package conditions reports how the conditions of claims, pools, node classes, capacity buffers and Nodes change: it counts
// how often and after how long, and writes an event about each change of those that
// are no Nodes.
package conditions

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// Loop watches on the leader only, so that nothing is reported twice. Its fields are set
// once, before Register.
type Loop struct {
	Cache      cache.Cache
	Conditions *observe.Conditions
	Events     *observe.Recorder
	Metrics    *observe.Metrics
	Now        func() time.Time
}

// Register adds the loop to the manager.
func (l *Loop) Register(mgr manager.Manager) error { return mgr.Add(l) }

// NeedLeaderElection returns true: one process at a time reports.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start watches until the context ends. A condition counts when it is seen to change, not
// when it is first seen.
func (l *Loop) Start(ctx context.Context) error {
	for _, kind := range l.Conditions.Objects() {
		informer, err := l.Cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: l.changed, DeleteFunc: l.gone})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		defer func() { _ = informer.RemoveEventHandler(registration) }() // it fails only when there is nothing to remove
	}
	<-ctx.Done()
	return nil
}

func (l *Loop) changed(before, after any) {
	was, wasObject := before.(client.Object)
	now, isObject := after.(client.Object)
	if !wasObject || !isObject || was.GetUID() != now.GetUID() {
		return
	}
	defer l.Metrics.Reconcile(controllerOf(now), l.Now)(nil)
	for _, t := range l.Conditions.Changed(was, now) {
		if isNode(now) || t.From == "" && t.Status == metav1.ConditionUnknown {
			continue // others report Nodes; and a condition that begins Unknown says nothing
		}
		l.Events.Event(now, observe.ConditionChanged(t))
	}
}

func (l *Loop) gone(o any) {
	if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	obj, ok := o.(client.Object)
	if !ok {
		return
	}
	if l.Conditions.Gone(obj) && !isNode(obj) {
		l.Events.Event(obj, observe.Finalized())
	}
}

// controllerOf returns Karpenter's name of the controller that reports the conditions of such objects.
func controllerOf(o client.Object) string {
	kind := reflect.TypeOf(o).Elem().Name()
	return "operatorpkg." + strings.ToLower(kind) + ".status"
}

func isNode(o client.Object) bool {
	_, ok := o.(*corev1.Node)
	return ok
}
