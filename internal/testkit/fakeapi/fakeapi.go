// Package fakeapi makes an API server in memory for tests of single looks of a controller:
// it knows our kinds and finds things by the mirror's indexes, but admits, defaults and
// deletes nothing by itself. What a real one would do is for tests on a control plane.
package fakeapi

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

// New returns a builder of a client that has copies of the objects, for more to be added
// to it.
func New(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	own := make([]client.Object, len(objects)) // it writes into the objects it is given
	for i, o := range objects {
		own[i] = o.DeepCopyObject().(client.Object)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(own...).WithStatusSubresource(&karpenterv1.NodeClaim{})
	if err := mirror.AddIndexes(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	return b
}

// indexer gives the builder the indexes that a cache is given.
type indexer struct{ *fake.ClientBuilder }

// IndexField adds one index.
func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}
