package demo

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow is an API server whose discovery names the kind of a definition only when it is asked for the third time.
type slow struct {
	client.Client
	mapper slowMapper
}

type slowMapper struct {
	meta.RESTMapper
	asked int
}

func (*slow) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return nil
}

func (*slow) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return unstructured.SetNestedSlice(o.(*unstructured.Unstructured).Object, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions")
}

func (s *slow) RESTMapper() meta.RESTMapper { return &s.mapper }

func (m *slowMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if m.asked++; m.asked < 3 || kind != (schema.GroupKind{Group: "g.test", Kind: "Thing"}) {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.RESTMapping{}, nil
}

// TestApplyWaitsForDiscovery: what is applied next may be of the kind that was just defined.
func TestApplyWaitsForDiscovery(t *testing.T) {
	t.Parallel()
	c := &slow{}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"kind": "CustomResourceDefinition", "spec": map[string]any{"group": "g.test", "names": map[string]any{"kind": "Thing"}},
	}}
	if err := Apply(t.Context(), c, definition); err != nil {
		t.Fatal(err)
	}
	if c.mapper.asked != 3 {
		t.Errorf("discovery was asked %d times, want 3", c.mapper.asked)
	}
}
