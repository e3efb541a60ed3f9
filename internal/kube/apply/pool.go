package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
)

// EditPool writes what change does to a pool's status, if it does anything. A pool that is newer
// than this is a conflict.
func EditPool(ctx context.Context, c client.Client, np *karpenterv1.NodePool, change func()) error {
	before := *np
	np.Status = *np.Status.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(&before.Status, &np.Status) {
		return nil
	}
	if err := sendStatus(ctx, c, np, mergeFromSeen(&before)); err != nil {
		return fmt.Errorf("write status of pool %s: %w", np.Name, err)
	}
	return nil
}

// EditOverlay writes what change does to an overlay's status, as EditPool does.
func EditOverlay(ctx context.Context, c client.Client, no *karpenterv1alpha1.NodeOverlay, change func()) error {
	before := *no
	no.Status = *no.Status.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(&before.Status, &no.Status) {
		return nil
	}
	if err := sendStatus(ctx, c, no, mergeFromSeen(&before)); err != nil {
		return fmt.Errorf("write status of overlay %s: %w", no.Name, err)
	}
	return nil
}

// EditBuffer writes what change does to a capacity buffer's status, as EditPool does.
func EditBuffer(ctx context.Context, c client.Client, cb *autoscalingv1beta1.CapacityBuffer, change func()) error {
	before := *cb
	cb.Status = *cb.Status.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(&before.Status, &cb.Status) {
		return nil
	}
	if err := sendStatus(ctx, c, cb, mergeFromSeen(&before)); err != nil {
		return fmt.Errorf("write status of capacity buffer %s/%s: %w", cb.Namespace, cb.Name, err)
	}
	return nil
}

// SetNodeClass writes a pool's reference to its node class. A pool that is newer than this is a conflict.
func SetNodeClass(ctx context.Context, c client.Client, np *karpenterv1.NodePool, ref *karpenterv1.NodeClassReference) error {
	before := *np
	np.Spec.Template.Spec.NodeClassRef = ref
	if err := send(ctx, c, np, mergeFromSeen(&before)); err != nil {
		return fmt.Errorf("write node class of pool %s: %w", np.Name, err)
	}
	return nil
}

// Annotate sets annotations that are not set yet, whatever else is written meanwhile.
func Annotate(ctx context.Context, c client.Client, obj client.Object, annotations map[string]string) error {
	had, changed := obj.GetAnnotations(), false
	for key, value := range annotations {
		changed = changed || had[key] != value
	}
	if !changed {
		return nil
	}
	before := shallow(obj)
	obj.SetAnnotations(overlay(had, annotations))
	if err := send(ctx, c, obj, mergeFrom(before)); err != nil {
		return fmt.Errorf("annotate %s: %w", obj.GetName(), err)
	}
	return nil
}
