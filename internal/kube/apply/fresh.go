package apply

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

const (
	// writesRemembered is of how many objects the last write is known.
	writesRemembered = 1 << 16
	// writeRemembered is for how long a cache may lag behind a write. A cache that still has an
	// older version then may never get the newer one, as after a restore of the API server's store.
	writeRemembered = time.Minute
)

var errOlder = errors.New("the cache has not seen this process's own write yet")

// ReadYourWrites returns a client that refuses, as a conflict, to read a NodeClaim or Node of the cache that
// is older than what has been written through the client: whatever is decided from it has been decided
// before, and the API server would refuse the write. While its watches lag, such writes would be most
// of its load.
func ReadYourWrites(c client.Client, now func() time.Time) client.Client {
	return &freshClient{Client: c, writes: &writes{last: lru.New(writesRemembered), now: now}}
}

// noting returns a client whose writes count as another's, too.
func noting(c, other client.Client) client.Client {
	if fresh, is := other.(*freshClient); is {
		return &freshClient{Client: c, writes: fresh.writes}
	}
	return c
}

type freshClient struct {
	client.Client
	writes *writes
}

// Get reads an object. An older version than was written is a conflict.
func (c *freshClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return c.refuse(obj)
}

// List reads objects. An older version than was written is a conflict, if they are the Nodes with one
// provider ID: a list of all would hardly ever be without one.
func (c *freshClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	nodes, is := list.(*corev1.NodeList)
	if !is || (&client.ListOptions{}).ApplyOptions(opts).FieldSelector == nil {
		return nil
	}
	for i := range nodes.Items {
		if err := c.refuse(&nodes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse refuses NodeClaims and Nodes. Other kinds are written seldom, and read to be known, not to be written.
func (c *freshClient) refuse(obj client.Object) error {
	switch obj.(type) {
	case *karpenterv1.NodeClaim, *corev1.Node:
	default:
		return nil
	}
	if !c.writes.isOlder(obj) {
		return nil
	}
	var of schema.GroupResource
	if gvk, err := apiutil.GVKForObject(obj, c.Scheme()); err == nil {
		of = schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}
	}
	return apierrors.NewConflict(of, obj.GetName(), errOlder)
}

// Create creates an object.
func (c *freshClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.writes.note(obj, c.Client.Create(ctx, obj, opts...))
}

// Update replaces an object.
func (c *freshClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.writes.note(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch changes an object.
func (c *freshClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.writes.note(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Status returns what writes the status of objects.
func (c *freshClient) Status() client.SubResourceWriter {
	return &freshStatus{SubResourceWriter: c.Client.Status(), writes: c.writes}
}

type freshStatus struct {
	client.SubResourceWriter
	writes *writes
}

// Update replaces the status of an object.
func (s *freshStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.writes.note(obj, s.SubResourceWriter.Update(ctx, obj, opts...))
}

// Patch changes the status of an object.
func (s *freshStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.writes.note(obj, s.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}

// writes has the version that each object got by its last write.
type writes struct {
	last *lru.Cache // of write by types.UID
	now  func() time.Time
}

type write struct {
	version string
	at      time.Time
}

// note remembers a write that has succeeded, and returns its error.
func (w *writes) note(obj client.Object, err error) error {
	if err == nil && obj.GetUID() != "" && !w.isOlder(obj) { // another write may have overtaken this one's answer
		w.last.Add(obj.GetUID(), write{obj.GetResourceVersion(), w.now()})
	}
	return err
}

// isOlder reports whether an object is as it was before its last write.
func (w *writes) isOlder(obj client.Object) bool {
	was, is := w.last.Get(obj.GetUID())
	if !is {
		return false
	}
	last := was.(write)
	if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), last.version); err == nil && order < 0 && w.now().Sub(last.at) < writeRemembered {
		return true
	}
	w.last.Remove(obj.GetUID())
	return false
}
