package aws

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestMemoryIsWrittenDown has nodes say less memory than their type should have. The least
// counts from the first answer after a restart on, for sixty days after the last such node.
func TestMemoryIsWrittenDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		ids := launchIDs(t, p, requests(t, p, 2, onDemand))
		time.Sleep(time.Minute)
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		name := all[0].Labels[corev1.LabelInstanceTypeStable]
		promised := memoryOf(t, p, name)
		say := func(token string, bytes int64) {
			t.Helper()
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: token, Labels: map[string]string{awsv1.LabelNodeClass: "default", karpenterv1.NodeRegisteredLabelKey: karpenterv1.LabelValueTrue}},
				Spec:       corev1.NodeSpec{ProviderID: ids[token]},
				Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}},
			}
			if err := w.api.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		say("token-0", promised-20<<20)
		say("token-1", promised-10<<20)
		refused, writes := errors.New("refused"), 0
		p.memory.client = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if writes++; writes == 1 {
					return refused
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		if err := p.cleanUp(t.Context()); !errors.Is(err, refused) {
			t.Errorf("the first write: %v, want that it was refused", err)
		}
		for range 3 {
			if _, err := p.List(t.Context()); err != nil { // which knows the instances
				t.Fatal(err)
			}
			if err := p.cleanUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if writes != 2 {
			t.Errorf("wrote %d times, want once, and once in vain", writes)
		}
		if got := memoryOf(t, p, name); got != promised-20<<20 {
			t.Errorf("%s has %d bytes, want 20 MiB less than %d", name, got, promised)
		}
		for token := range ids {
			if err := w.api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: token}}); err != nil {
				t.Fatal(err)
			}
		}
		next := w.provider(t)
		if got := memoryOf(t, next, name); got != promised-20<<20 {
			t.Errorf("after a restart %s has %d bytes, want 20 MiB less than %d", name, got, promised)
		}
		time.Sleep(memoryKept)
		if got := memoryOf(t, w.provider(t), name); got != promised {
			t.Errorf("long after the last node %s has %d bytes, want %d again", name, got, promised)
		}
	})
}

// TestMemoryOfTwo has two processes learn of different types: both are kept.
func TestMemoryOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		one, two := w.provider(t), w.provider(t)
		class := &awsv1.EC2NodeClass{}
		if err := w.api.Get(t.Context(), named("default"), class); err != nil {
			t.Fatal(err)
		}
		two.memory.ready(t.Context())
		for i, p := range []*Provider{one, two} {
			p.memory.learn(memoryKey{fmt.Sprint("type-", i), bootKey(class)}, memorySeen{1 << 30, time.Now()})
			if err := p.memory.save(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		three := w.provider(t)
		three.memory.ready(t.Context())
		if known := three.memory.of(class, time.Now()); len(known) != 2 {
			t.Errorf("%d types are written down, want both: %v", len(known), known)
		}
	})
}

// memoryOf returns the memory that a type is expected to have.
func memoryOf(t *testing.T, p *Provider, name string) int64 {
	t.Helper()
	all, err := p.Types(t.Context(), classRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range all {
		if of.Name == name {
			return of.Capacity[quantity.Memory]
		}
	}
	t.Fatalf("there is no type %s", name)
	return 0
}
