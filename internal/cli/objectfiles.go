package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dovetail-sh/dovetail/internal/operator"
)

// objectFiles is a reader of the objects of files. Of a client.WithWatch it has no more than that.
type objectFiles struct {
	client.WithWatch
	objects []*unstructured.Unstructured
}

// Get returns the object of a kind and name. A field that its kind does not have is an error.
func (f *objectFiles) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	want, err := apiutil.GVKForObject(into, operator.Scheme())
	if err != nil {
		return err
	}
	for _, o := range f.objects {
		if o.GroupVersionKind() != want || o.GetName() != key.Name || o.GetNamespace() != key.Namespace && key.Namespace != "" {
			continue
		}
		if untyped, ok := into.(*unstructured.Unstructured); ok {
			o.DeepCopyInto(untyped)
			return nil
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
			return fmt.Errorf("%s %s: %w", want.Kind, key.Name, err)
		}
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: want.Group, Resource: want.Kind}, key.Name)
}
