package world

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// errGone is what a process hears that is not there any more.
var errGone = errors.New("world: the process is gone")

// reader reads from shelves: those of the informers, or the server's.
type reader struct {
	p     *process
	shelf func(kind string) *shelf
}

// Get copies an object, unless it is told not to copy what that points to.
func (r reader) Get(_ context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if r.p.dead {
		return errGone
	}
	kind := kindName(obj)
	had := r.shelf(kind).get(key)
	if had == nil {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(had)
		if err != nil {
			return fmt.Errorf("convert %s: %w", key, err)
		}
		gvk := u.GroupVersionKind()
		u.Object = content
		u.SetGroupVersionKind(gvk)
		return nil
	}
	var o client.GetOptions
	o.ApplyOptions(opts)
	if o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(had).Elem())
		return nil
	}
	copyInto(obj, had)
	return nil
}

// copyInto makes one object a copy of another, those of which there are many at once in place.
func copyInto(into, from client.Object) {
	switch from := from.(type) {
	case *corev1.Pod:
		from.DeepCopyInto(into.(*corev1.Pod))
	case *corev1.Node:
		from.DeepCopyInto(into.(*corev1.Node))
	case *karpenterv1.NodeClaim:
		from.DeepCopyInto(into.(*karpenterv1.NodeClaim))
	default:
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	}
}

// List copies objects, unless it is told not to.
func (r reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if r.p.dead {
		return errGone
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	typed := reflect.TypeOf(list).Elem()
	kind := typed.Name()[:len(typed.Name())-len("List")]
	s := r.shelf(kind)
	from, wanted, err := candidates(s, &o)
	if err != nil {
		return fmt.Errorf("world: list %s: %w", kind, err)
	}
	chosen := make([]client.Object, 0, len(from))
	for _, obj := range from {
		if (o.Namespace == "" || obj.GetNamespace() == o.Namespace) && (wanted == nil || wanted.Matches(labels.Set(obj.GetLabels()))) {
			chosen = append(chosen, obj)
		}
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	out := reflect.MakeSlice(items.Type(), len(chosen), len(chosen))
	for i, obj := range chosen {
		if o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy {
			out.Index(i).Set(reflect.ValueOf(obj).Elem())
		} else {
			copyInto(out.Index(i).Addr().Interface().(client.Object), obj)
		}
	}
	items.Set(out)
	return nil
}

// candidates returns what an index finds of what is asked for, or all there is, and the selector
// that is left to be asked; nil: none.
func candidates(s *shelf, o *client.ListOptions) (found []client.Object, left labels.Selector, err error) {
	if o.FieldSelector == nil {
		if label, value, only := oneLabel(o.LabelSelector); only {
			return s.byLabel(label).find(value), nil, nil
		}
		return s.sorted, o.LabelSelector, nil
	}
	found = s.sorted
	for _, need := range o.FieldSelector.Requirements() {
		var known bool
		if found, known = s.find(need.Field, need.Value); !known {
			return nil, nil, fmt.Errorf("there is no index %s", need.Field)
		}
	}
	return found, o.LabelSelector, nil
}

// oneLabel returns what a selector asks for that asks for one value of one label, as most do.
func oneLabel(s labels.Selector) (label, value string, only bool) {
	if s == nil {
		return "", "", false
	}
	if rules, _ := s.Requirements(); len(rules) == 1 && rules[0].Operator() == selection.Equals {
		value, _ = s.RequiresExactMatch(rules[0].Key())
		return rules[0].Key(), value, true
	}
	return "", "", false
}

// productClient is the API server as a process sees it: it reads what it has heard, and
// writes through faults.
type productClient struct {
	client.Client // of which nothing else is used
	reader
	p *process
}

// Get reads what was heard.
func (c *productClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

// List reads what was heard.
func (c *productClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

// Scheme returns the kinds.
func (c *productClient) Scheme() *runtime.Scheme { return c.p.scheme }

// RESTMapper is not used.
func (c *productClient) RESTMapper() meta.RESTMapper { return nil }

// write performs a write with the faults of the day.
func (c *productClient) write(verb string, obj client.Object, effect func() error) error {
	w := c.p.w
	if err := c.p.mayAct(); err != nil {
		return err
	}
	kind := kindName(obj)
	fault := w.chaos.onWrite()
	if err := fault.before(w, kind, obj.GetName()); err != nil {
		return err
	}
	if fault == CrashBefore {
		c.p.crash()
		return errGone
	}
	w.note("product %s %s %s", verb, kind, obj.GetName())
	w.checks.acts(c.p, verb+" "+kind)
	w.checks.productWrites(verb, kind, obj)
	w.checks.byProduct = true
	err := effect()
	w.checks.byProduct = false
	if err != nil {
		w.note("refused %s", apierrors.ReasonForError(err))
	}
	switch fault {
	case CrashAfter:
		c.p.crash()
		return errGone
	case AnswerSlow:
		w.elapse(w.between(0, slowest))
		if c.p.dead {
			return errGone
		}
		return err
	case AnswerLost:
		return apierrors.NewTimeoutError("world: the answer was lost", 1)
	default:
		return err
	}
}

// Create stores an object.
func (c *productClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if m := c.p.w.opts.Mutant; m != nil && m.Create != nil {
		m.Create(c.p.w, obj)
	}
	return c.write("create", obj, func() error { return c.p.w.api.create(obj) })
}

// Delete removes an object if the preconditions hold.
func (c *productClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	return c.write("delete", obj, func() error {
		kind := kindName(obj)
		had := c.p.w.api.shelf(kind).get(keyOf(obj))
		if had == nil {
			return apierrors.NewNotFound(resourceOf(kind), obj.GetName())
		}
		if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != had.GetUID() {
			return apierrors.NewConflict(resourceOf(kind), obj.GetName(), errors.New("another UID"))
		}
		if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil && *o.Preconditions.ResourceVersion != had.GetResourceVersion() {
			return apierrors.NewConflict(resourceOf(kind), obj.GetName(), errors.New("it has changed since it was read"))
		}
		grace := graceOf(had)
		if o.GracePeriodSeconds != nil {
			grace = time.Duration(*o.GracePeriodSeconds) * time.Second
		}
		c.p.w.checks.productDeletes(had, o.GracePeriodSeconds != nil)
		c.p.w.api.remove(had, grace)
		return nil
	})
}

// Patch changes an object but for its status.
func (c *productClient) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(obj, patch, "patch", false)
}

func (c *productClient) patch(obj client.Object, patch client.Patch, verb string, status bool) error {
	data, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("make a patch of %s: %w", obj.GetName(), err)
	}
	if m := c.p.w.opts.Mutant; m != nil && m.Patch != nil {
		if data = m.Patch(c.p.w, obj, data, status); data == nil {
			return nil
		}
	}
	return c.write(verb, obj, func() error {
		is, err := c.p.w.api.patch(obj, patch.Type(), data, status)
		if err == nil {
			copyInto(obj, is)
		}
		return err
	})
}

// Status writes statuses.
func (c *productClient) Status() client.SubResourceWriter { return statusWriter{c: c} }

type statusWriter struct {
	client.SubResourceWriter // of which nothing else is used
	c                        *productClient
}

// Patch changes an object's status.
func (s statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(obj, patch, "patch status of", true)
}

// SubResource knows evictions.
func (c *productClient) SubResource(string) client.SubResourceClient { return evictions{c: c} }

type evictions struct {
	client.SubResourceClient // of which nothing else is used
	c                        *productClient
}

// Create evicts a pod.
func (e evictions) Create(_ context.Context, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
	w := e.c.p.w
	if m := w.opts.Mutant; m != nil && m.Evict != nil {
		if done := m.Evict(w, obj.(*corev1.Pod)); done {
			return nil
		}
	}
	return e.c.write("evict", obj, func() error { return w.api.evict(obj.(*corev1.Pod)) })
}
