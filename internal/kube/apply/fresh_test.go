package apply_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestReadYourWrites: what is older than this process's own writes is not read, whatever wrote it; what
// others have written since is.
func TestReadYourWrites(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	var lagging client.Object // what the cache still has
	var old *corev1.Node      // likewise
	server := fakeapi.New(t, &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "u1"}}).Build()
	cached := interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if lagging == nil {
				return c.Get(ctx, key, obj, opts...)
			}
			lagging.(*karpenterv1.NodeClaim).DeepCopyInto(obj.(*karpenterv1.NodeClaim))
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if old != nil {
				list.(*corev1.NodeList).Items = []corev1.Node{*old}
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	c := apply.ReadYourWrites(cached, func() time.Time { return now })
	read := func() error { return c.Get(ctx, client.ObjectKey{Name: "c1"}, &karpenterv1.NodeClaim{}) }
	claim := func() *karpenterv1.NodeClaim {
		nc := &karpenterv1.NodeClaim{}
		if err := server.Get(ctx, client.ObjectKey{Name: "c1"}, nc); err != nil {
			t.Fatal(err)
		}
		return nc
	}
	for name, write := range map[string]func(nc *karpenterv1.NodeClaim) error{
		"patch": func(nc *karpenterv1.NodeClaim) error {
			before := nc.DeepCopy()
			metav1.SetMetaDataAnnotation(&nc.ObjectMeta, "a", "patched")
			return c.Patch(ctx, nc, client.MergeFrom(before))
		},
		"update": func(nc *karpenterv1.NodeClaim) error {
			metav1.SetMetaDataAnnotation(&nc.ObjectMeta, "a", "updated")
			return c.Update(ctx, nc)
		},
		"patch of the status": func(nc *karpenterv1.NodeClaim) error {
			before := nc.DeepCopy()
			nc.Status.ImageID = "i"
			return c.Status().Patch(ctx, nc, client.MergeFrom(before))
		},
		"update of the status": func(nc *karpenterv1.NodeClaim) error {
			nc.Status.ImageID = "j"
			return c.Status().Update(ctx, nc)
		},
	} {
		lagging = nil
		before := claim()
		if err := write(claim()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lagging = before
		if err := read(); !apierrors.IsConflict(err) {
			t.Errorf("%s: reading what the cache had before: %v, want a conflict", name, err)
		}
		lagging = claim()
		if err := read(); err != nil {
			t.Errorf("%s: reading what was written: %v", name, err)
		}
		lagging = before
		if err := read(); err != nil {
			t.Errorf("%s: a cache that has had it goes back: %v", name, err)
		}
	}

	lagging = nil
	before := claim()
	if err := c.Patch(ctx, claim(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	other := claim()
	other.Annotations["a"] = "of another"
	if err := server.Update(ctx, other); err != nil {
		t.Fatal(err)
	}
	lagging = claim()
	if err := read(); err != nil {
		t.Errorf("what another has written since: %v", err)
	}

	lagging = nil
	if err := c.Update(ctx, claim()); err != nil {
		t.Fatal(err)
	}
	lagging = before
	if err := read(); !apierrors.IsConflict(err) {
		t.Errorf("a lagging cache: %v, want a conflict", err)
	}
	now = now.Add(time.Minute)
	if err := read(); err != nil {
		t.Errorf("a cache that lags for a minute is believed: %v", err)
	}

	lagging = nil
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u3"}, Spec: corev1.NodeSpec{ProviderID: "i-1"}}
	if err := c.Create(ctx, node); err != nil {
		t.Fatal(err)
	}
	old = node.DeepCopy()
	node.Spec.Unschedulable = true
	if err := c.Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	if err := c.List(ctx, &corev1.NodeList{}, client.MatchingFields{mirror.NodeProviderID: "i-1"}); !apierrors.IsConflict(err) {
		t.Errorf("the Nodes of an instance as they were before: %v, want a conflict", err)
	}
	if err := c.List(ctx, &corev1.NodeList{}); err != nil {
		t.Errorf("all Nodes: %v", err)
	}
	old = nil
	if err := c.List(ctx, &corev1.NodeList{}, client.MatchingFields{mirror.NodeProviderID: "i-1"}); err != nil {
		t.Errorf("the Nodes of an instance as they are: %v", err)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "u2"}}
	if err := c.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); err != nil {
		t.Errorf("reading what was created: %v", err)
	}
}
