package clusterapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// coreGroup is the group of Cluster, Machine and MachineDeployment.
	coreGroup = "cluster.x-k8s.io"

	kindCluster    = "Cluster"
	kindDeployment = "MachineDeployment"
	kindMachine    = "Machine"

	// machinesMax bounds what is kept in memory of Machines.
	machinesMax = 50_000
)

// coreVersions are the versions of Cluster API that are understood, the best first.
func coreVersions() []string { return []string{"v1beta2", "v1beta1"} }

// management is the cluster that has Cluster API's objects.
type management struct {
	// client reads and writes without a cache.
	client client.WithWatch
	// namespace is the one that has the objects; empty: any.
	namespace string

	mu sync.Mutex
	// names are those of Machines by their provider ID, as far as they are known; guarded by mu.
	names map[string]client.ObjectKey
}

// core returns a kind of Cluster API's own, in the best version that is served. Versions are asked for one by one: a
// mapper that knows none of several yet finds none if one of them is not served.
func (m *management) core(kind string) (schema.GroupVersionKind, error) {
	var err error
	for _, version := range coreVersions() {
		group := schema.GroupKind{Group: coreGroup, Kind: kind}
		var mapping *meta.RESTMapping
		if mapping, err = m.client.RESTMapper().RESTMapping(group, version); err == nil && mapping.GroupVersionKind.Version == version {
			return mapping.GroupVersionKind, nil
		}
		if err == nil { // another version
			err = &meta.NoKindMatchError{GroupKind: group, SearchedVersions: []string{version}}
		}
		if !isUnserved(err) {
			break
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the management cluster has no %s of %s (%s): %w", kind, coreGroup, strings.Join(coreVersions(), ", "), err)
}

// of returns the version of a kind of an infrastructure or bootstrap provider that the server prefers.
func (m *management) of(kind schema.GroupKind) (schema.GroupVersionKind, error) {
	mapping, err := m.client.RESTMapper().RESTMapping(kind)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return mapping.GroupVersionKind, nil
}

// get reads an object.
func (m *management) get(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := m.client.Get(ctx, key, object); err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind.Kind, key, err)
	}
	return object, nil
}

// getCore reads an object of Cluster API's own kinds.
func (m *management) getCore(ctx context.Context, kind string, key client.ObjectKey) (*unstructured.Unstructured, error) {
	gvk, err := m.core(kind)
	if err != nil {
		return nil, err
	}
	return m.get(ctx, gvk, key)
}

// getRef reads an object that is referred to.
func (m *management) getRef(ctx context.Context, r reference, namespace string) (*unstructured.Unstructured, error) {
	gvk, err := m.of(r.groupKind())
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", r, err)
	}
	return m.get(ctx, gvk, client.ObjectKey{Namespace: namespace, Name: r.Name})
}

// list reads all objects of a kind of Cluster API's own.
func (m *management) list(ctx context.Context, kind string, opts ...client.ListOption) ([]unstructured.Unstructured, error) {
	gvk, err := m.core(kind)
	if err != nil {
		return nil, err
	}
	all := listOf(gvk)
	if m.namespace != "" {
		opts = append([]client.ListOption{client.InNamespace(m.namespace)}, opts...)
	}
	if err := m.client.List(ctx, all, opts...); err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	return all.Items, nil
}

// listOf returns an empty list of a kind.
func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}

// informer returns an informer of the objects of a kind that a selector selects; nil: of all.
func (m *management) informer(kind schema.GroupVersionKind, selector labels.Selector) toolscache.SharedIndexInformer {
	opts := func(raw metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Namespace: m.namespace, LabelSelector: selector, Raw: &raw}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			l := listOf(kind)
			return l, m.client.List(ctx, l, opts(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return m.client.Watch(ctx, listOf(kind), opts(raw))
		},
	}, object, 0, nil)
}

// annotate sets annotations of a Machine, and removes those that are nil.
func (m *management) annotate(ctx context.Context, object *unstructured.Unstructured, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": annotations}})
	if err == nil {
		err = m.client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if apierrors.IsNotFound(err) {
		return cloud.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("take the hook off %s %s: %w", kindMachine, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// delete deletes a Machine.
func (m *management) delete(ctx context.Context, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	err := m.client.Delete(ctx, object.DeepCopy(), client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) {
		return cloud.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", kindMachine, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// remember notes under which provider ID a Machine is found.
func (m *management) remember(id string, key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil || len(m.names) >= machinesMax {
		m.names = map[string]client.ObjectKey{}
	}
	m.names[id] = key
}

// known returns the Machine that was last seen with a provider ID.
func (m *management) known(id string) (client.ObjectKey, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.names[id]
	return key, ok
}

// forget forgets a provider ID.
func (m *management) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, id)
}

// isRefused reports whether a write was refused for what it says or who asked, so that to repeat it
// would not help.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || isUnserved(err)
}

// isUnserved reports whether the management cluster does not have a kind.
func isUnserved(err error) bool {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	return errors.As(err, &noKind) || errors.As(err, &noResource)
}
