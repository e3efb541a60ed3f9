package clusterapi

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// changesEvery is how often it is reported at most that types may have changed.
	changesEvery = time.Second
	// kindsAgain is how long it takes until the management cluster is asked again for a kind that it did not have.
	kindsAgain = 30 * time.Second
	// templateKindsMax bounds the kinds of templates that are watched.
	templateKindsMax = 20
)

// changes watches what listings are made from: MachineDeployments, Clusters and the templates of MachineDeployments.
type changes struct {
	mgmt *management
	log  *slog.Logger
	// classes returns the names of the classes whose types were asked for.
	classes func() []string
	// happened has a value after something has changed, and found after there is another kind of template.
	happened, found chan struct{}

	mu sync.Mutex
	// report is called with a class; guarded by mu; nil: nobody wants to know.
	report func(cloud.ClassRef)
	// templates are the kinds that MachineDeployments refer to; guarded by mu.
	templates map[schema.GroupKind]bool
}

func newChanges(mgmt *management, log *slog.Logger, classes func() []string) *changes {
	return &changes{mgmt: mgmt, log: log, classes: classes, happened: make(chan struct{}, 1), found: make(chan struct{}, 1), templates: map[schema.GroupKind]bool{}}
}

// wake puts a value into a channel that has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add has objects of the kinds of these watched, too.
func (c *changes) add(templates ...reference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range templates {
		if kind := r.groupKind(); r != (reference{}) && !c.templates[kind] && len(c.templates) < templateKindsMax {
			c.templates[kind] = true
			wake(c.found)
		}
	}
}

func (c *changes) kinds() map[schema.GroupKind]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.templates)
}

// OnTypesChanged has changed called for the classes in use whenever an object has changed that their types are made from.
func (p *Provider) OnTypesChanged(changed func(class cloud.ClassRef)) {
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	p.changes.report = changed
}

// NeedLeaderElection reports that Start runs in every replica.
func (p *Provider) NeedLeaderElection() bool { return false }

// Start watches what types are made from until the context ends. Without the right to do that types are asked for every
// minute, and a line of the log says so.
func (p *Provider) Start(ctx context.Context) error { return p.changes.watch(ctx) }

func (c *changes) watch(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	begin := func(name string, kind func() (schema.GroupVersionKind, error)) {
		watching.Go(func() { c.follow(ctx, name, kind) })
	}
	for _, kind := range []string{kindDeployment, kindCluster} {
		begin(kind, func() (schema.GroupVersionKind, error) { return c.mgmt.core(kind) })
	}
	begun := map[schema.GroupKind]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.found:
			for kind := range c.kinds() {
				if !begun[kind] {
					begun[kind] = true
					begin(kind.String(), func() (schema.GroupVersionKind, error) { return c.mgmt.of(kind) })
				}
			}
		case <-c.happened:
			c.reportAll()
			pause(ctx, changesEvery)
		}
	}
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// reportAll reports that the types of all classes that were asked for may have changed.
func (c *changes) reportAll() {
	c.mu.Lock()
	report := c.report
	c.mu.Unlock()
	if report == nil {
		return
	}
	for _, name := range c.classes() {
		report(cloud.ClassRef{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: name})
	}
}

// follow watches the objects of one kind until the context ends.
func (c *changes) follow(ctx context.Context, name string, find func() (schema.GroupVersionKind, error)) {
	said := ""
	for ctx.Err() == nil {
		kind, err := find()
		if err == nil {
			err = c.followKind(ctx, kind)
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			c.log.Warn("objects cannot be watched, so changes of instance types are noticed within a minute", "kind", name, "error", err)
		}
		pause(ctx, kindsAgain)
	}
}

// followKind runs an informer until the context ends. An error means that it could not begin.
func (c *changes) followKind(ctx context.Context, kind schema.GroupVersionKind) error {
	if err := c.mgmt.client.List(ctx, listOf(kind), &client.ListOptions{Namespace: c.mgmt.namespace, Limit: 1}); err != nil {
		return err
	}
	informer := c.mgmt.informer(kind, nil)
	if err := informer.SetTransform(relevant); err != nil {
		return err
	}
	happened := func(any) { wake(c.happened) }
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: happened, DeleteFunc: happened, UpdateFunc: func(was, is any) {
			if isChanged(was, is) {
				happened(is)
			}
		},
	}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return ctx.Err()
}

// relevant returns what of an object may have to do with types, which is all that is kept of it.
func relevant(o any) (any, error) {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	status := fields(object.Object).at("status")
	if kind := object.GetKind(); kind == kindDeployment || kind == kindCluster {
		status = fields{"replicas": status["replicas"], "failureDomains": status["failureDomains"]}
	}
	kept := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "spec": object.Object["spec"], "status": map[string]any(status),
	}}
	kept.SetNamespace(object.GetNamespace())
	kept.SetName(object.GetName())
	kept.SetResourceVersion(object.GetResourceVersion()) // by which the informer knows an update
	kept.SetLabels(object.GetLabels())
	kept.SetAnnotations(object.GetAnnotations())
	kept.SetDeletionTimestamp(object.GetDeletionTimestamp())
	return kept, nil
}

// isChanged reports whether two states of an object differ in what is relevant.
func isChanged(was, is any) bool {
	content := func(o any) []any {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		return []any{object.Object["spec"], object.Object["status"], object.GetLabels(), object.GetAnnotations(), object.GetDeletionTimestamp() != nil}
	}
	return !reflect.DeepEqual(content(was), content(is))
}
