package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClientHooks are called for the writes of one client. Only Write must be set.
type ClientHooks struct {
	// Write performs a write by calling effect, or has it go wrong.
	Write func(ctx context.Context, verb string, o client.Object, effect func() error) error
	// Create may change what is created, Patch what is patched; nil data: the patch is dropped.
	Create func(o client.Object)
	Patch  func(o client.Object, data []byte, status bool) []byte
	// Evict may take an eviction's place.
	Evict func(pod *corev1.Pod) (done bool)
	// Delete is called before an object is deleted; forced: with a grace period of the client's.
	Delete func(o client.Object, forced bool)
}

// Client is the API server as one of its users sees it.
type Client struct {
	client.Client // of which nothing else is used
	reader        Reader
	server        *API
	scheme        *runtime.Scheme
	hooks         ClientHooks
}

// NewClient returns a client that reads from a reader and writes to a server.
func NewClient(server *API, reader Reader, scheme *runtime.Scheme, hooks *ClientHooks) *Client {
	return &Client{reader: reader, server: server, scheme: scheme, hooks: *hooks}
}

// Get copies an object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

// List copies objects.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

// Scheme returns the kinds.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// RESTMapper is not used.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// Create stores an object.
func (c *Client) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	if c.hooks.Create != nil {
		c.hooks.Create(obj)
	}
	return c.hooks.Write(ctx, "create", obj, func() error { return c.server.Create(obj) })
}

// Delete removes an object if the preconditions are met.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	return c.hooks.Write(ctx, "delete", obj, func() error {
		kind := KindOf(obj)
		had := c.server.Shelf(kind).Get(KeyOf(obj))
		if had == nil {
			return apierrors.NewNotFound(ResourceOf(kind), obj.GetName())
		}
		if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != had.GetUID() {
			return apierrors.NewConflict(ResourceOf(kind), obj.GetName(), errors.New("another UID"))
		}
		if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil && *o.Preconditions.ResourceVersion != had.GetResourceVersion() {
			return apierrors.NewConflict(ResourceOf(kind), obj.GetName(), errors.New("it has changed since it was read"))
		}
		grace := GraceOf(had)
		if o.GracePeriodSeconds != nil {
			grace = time.Duration(*o.GracePeriodSeconds) * time.Second
		}
		if c.hooks.Delete != nil {
			c.hooks.Delete(had, o.GracePeriodSeconds != nil)
		}
		c.server.Delete(had, grace)
		return nil
	})
}

// Patch changes an object but for its status.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, obj, patch, false)
}

func (c *Client) patch(ctx context.Context, obj client.Object, patch client.Patch, status bool) error {
	data, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("make a patch of %s: %w", obj.GetName(), err)
	}
	if c.hooks.Patch != nil {
		if data = c.hooks.Patch(obj, data, status); data == nil {
			return nil
		}
	}
	verb := "patch"
	if status {
		verb = "patch status of"
	}
	return c.hooks.Write(ctx, verb, obj, func() error {
		is, err := c.server.patch(obj, patch.Type(), data, status)
		if err == nil {
			copyInto(obj, is)
		}
		return err
	})
}

// Status writes statuses.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{c: c} }

type statusWriter struct {
	client.SubResourceWriter // of which nothing else is used
	c                        *Client
}

// Patch changes an object's status.
func (s statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.patch(ctx, obj, patch, true)
}

// SubResource knows evictions.
func (c *Client) SubResource(string) client.SubResourceClient { return evictions{c: c} }

type evictions struct {
	client.SubResourceClient // of which nothing else is used
	c                        *Client
}

// Create evicts a pod.
func (e evictions) Create(ctx context.Context, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
	pod := obj.(*corev1.Pod)
	if e.c.hooks.Evict != nil && e.c.hooks.Evict(pod) {
		return nil
	}
	return e.c.hooks.Write(ctx, "evict", obj, func() error { return e.c.server.evict(pod) })
}
