package clusterapi

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Held are the Machines of a cluster that cannot be deleted without a controller, since they have our hook.
type Held struct {
	objects []unstructured.Unstructured
	client  client.Client
	// Unserved: the cluster that was asked has no such kind, so it is no management cluster.
	Unserved bool
}

// ReadHeld reads them: uid is that of the Namespace kube-system of the cluster, and namespace that of the management
// cluster that has them, or empty. A management cluster without Machines has none.
func ReadHeld(ctx context.Context, c client.WithWatch, namespace, uid string) (*Held, error) {
	h := &Held{client: c}
	all, err := (&management{client: c, namespace: namespace}).list(ctx, kindMachine, client.MatchingLabels{ownerLabel: uid})
	if h.Unserved = isUnserved(err) || apierrors.IsNotFound(err); err != nil && !h.Unserved {
		return nil, err
	}
	for i := range all {
		if _, holds := all[i].GetAnnotations()[drainHook]; holds {
			h.objects = append(h.objects, all[i])
		}
	}
	return h, nil
}

// Len returns how many there are.
func (h *Held) Len() int { return len(h.objects) }

// Without returns the names of those whose NodeClaim is gone: none has the UID that they were launched for, and none has their
// provider ID.
func (h *Held) Without(claims map[types.UID]bool, providerIDs map[string]bool) (names []string) {
	for i := range h.objects {
		o := &h.objects[i]
		r, err := readRecord(o)
		if err == nil && r.Token != "" && claims[types.UID(r.Token)] || providerIDs[fields(o.Object).text("spec", "providerID")] {
			continue
		}
		names = append(names, o.GetNamespace()+"/"+o.GetName())
	}
	return names
}

// Release takes the hook off, and has Cluster API drain them when somebody deletes them.
func (h *Held) Release(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:null,%q:null}}}`, drainHook, noDrain, noVolumeWait)
	for i := range h.objects {
		o := &h.objects[i]
		if err := h.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take the hook off %s %s/%s: %w", kindMachine, o.GetNamespace(), o.GetName(), err)
		}
	}
	return nil
}
