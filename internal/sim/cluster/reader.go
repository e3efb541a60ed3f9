package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// Reader reads copies of objects: of what the API server keeps, or of what an informer has seen.
type Reader struct {
	// Shelf returns the objects of a kind.
	Shelf func(kind string) *Shelf
	// Check returns why nothing can be read now; nil: something can.
	Check func() error
	// Lock is held while a shelf is read; nil: there is one goroutine.
	Lock sync.Locker
}

// read calls do with the objects of a kind, under the lock.
func (r Reader) read(kind string, do func(s *Shelf) error) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Lock != nil {
		r.Lock.Lock()
		defer r.Lock.Unlock()
	}
	return do(r.Shelf(kind))
}

// Get copies an object, unless an option says to share what that points to.
func (r Reader) Get(_ context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	kind := KindOf(obj)
	var had client.Object
	err := r.read(kind, func(s *Shelf) error {
		if had = s.Get(key); had == nil {
			return apierrors.NewNotFound(ResourceOf(kind), key.Name)
		}
		return nil
	})
	if err != nil {
		return err
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

// List copies objects, unless an option says to share them.
func (r Reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	typed := reflect.TypeOf(list).Elem()
	kind := typed.Name()[:len(typed.Name())-len("List")]
	var chosen []client.Object
	err := r.read(kind, func(s *Shelf) error {
		from, wanted, err := candidates(s, &o)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		chosen = make([]client.Object, 0, len(from))
		for _, obj := range from {
			if (o.Namespace == "" || obj.GetNamespace() == o.Namespace) && (wanted == nil || wanted.Matches(labels.Set(obj.GetLabels()))) {
				chosen = append(chosen, obj)
			}
		}
		return nil
	})
	if err != nil {
		return err
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
func candidates(s *Shelf, o *client.ListOptions) (found []client.Object, left labels.Selector, err error) {
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
