package apply_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// refusing answers each deletion with an error.
type refusing struct {
	client.Client // of which nothing else is used
	err           error
}

// Delete refuses.
func (r refusing) Delete(context.Context, client.Object, ...client.DeleteOption) error { return r.err }

// TestARefusedRemovalIsReported: nothing would happen to the object that could wake who asked.
func TestARefusedRemovalIsReported(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "nodeclaims"}
	conflict := apierrors.NewConflict(resource, "a", errors.New("not now"))
	if err := apply.Remove(t.Context(), refusing{err: conflict}, &karpenterv1.NodeClaim{}); !apply.IsStale(err) {
		t.Errorf("a conflict: %v, want it returned", err)
	}
	if err := apply.Remove(t.Context(), refusing{err: apierrors.NewNotFound(resource, "a")}, &karpenterv1.NodeClaim{}); err != nil {
		t.Errorf("what is gone: %v", err)
	}
}

// TestChangedObjectsAreNotRemovedAsSeen: what was decided on an old state is decided anew.
func TestChangedObjectsAreNotRemovedAsSeen(t *testing.T) {
	t.Parallel()
	c := server(t, &fault{})
	old, _ := world(t, c)
	if err := c.Patch(t.Context(), old.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))); err != nil {
		t.Fatal(err)
	}
	if err := apply.RemoveAsSeen(t.Context(), c, old); !apply.IsStale(err) {
		t.Errorf("what has changed: %v, want a conflict", err)
	}
	now, _ := world(t, c)
	if err := apply.RemoveAsSeen(t.Context(), c, now); err != nil {
		t.Errorf("what is as it was: %v", err)
	}
}
