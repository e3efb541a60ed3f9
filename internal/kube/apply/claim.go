package apply

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// IsStale reports whether a write was refused because the object has changed or gone since
// it was read. That is no error to report: read the object again.
func IsStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// AdoptClaim puts our finalizer on a claim, and the label of its node class, by which its
// Node will be known as ours.
func AdoptClaim(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim) error {
	return edit(ctx, c, claim, "add finalizer to claim", func() {
		controllerutil.AddFinalizer(claim, karpenterv1.TerminationFinalizer)
		metav1.SetMetaDataLabel(&claim.ObjectMeta, translate.ClassLabel(claim.Spec.NodeClassRef), claim.Spec.NodeClassRef.Name)
	})
}

// LabelClass puts a label, that of a node class, on a claim or Node.
func LabelClass(ctx context.Context, c client.Client, obj client.Object, key, class string) error {
	if had, is := obj.GetLabels()[key]; is && had == class {
		return nil // which it nearly always has
	}
	return edit(ctx, c, obj, "label", func() { obj.SetLabels(overlay(obj.GetLabels(), map[string]string{key: class})) })
}

// RemoveFinalizer takes our finalizer off a claim or Node, which lets it go.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object) error {
	return edit(ctx, c, obj, "remove finalizer from", func() {
		controllerutil.RemoveFinalizer(obj, karpenterv1.TerminationFinalizer)
	})
}

// ClearDeadline takes back what SetDeadline wrote.
func ClearDeadline(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim) error {
	return edit(ctx, c, claim, "clear deadline of claim", func() {
		delete(claim.Annotations, karpenterv1.NodeClaimTerminationTimestampAnnotationKey)
	})
}

// SetDeadline writes on a claim when its drain ends what is left.
func SetDeadline(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, deadline time.Time) error {
	return edit(ctx, c, claim, "set deadline of claim", func() {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpenterv1.NodeClaimTerminationTimestampAnnotationKey, deadline.UTC().Format(time.RFC3339))
	})
}

// tightenDeadline is SetDeadline, unless the claim has an earlier deadline.
func tightenDeadline(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, deadline time.Time) error {
	had, err := translate.Deadline(claim) // one that cannot be read is replaced
	if err == nil && !had.IsZero() && !had.After(deadline) {
		return nil
	}
	return SetDeadline(ctx, c, claim, deadline)
}

// RecordAccepted writes on a claim what the cloud calls its instance until that has a provider ID.
func RecordAccepted(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, id string) error {
	return edit(ctx, c, claim, "record accepted launch of claim", func() {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, translate.ProvisionalIDAnnotationKey, id)
	})
}

// RecordLaunch writes on a claim which instance it got. The labels and annotations go
// first: a claim that says it is launched says what it is, too.
func RecordLaunch(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, got *cloud.Instance, now time.Time) error {
	err := edit(ctx, c, claim, "label claim", func() {
		claim.Labels = overlay(got.Labels, claim.Labels)
		claim.Annotations = overlay(claim.Annotations, got.Annotations)
	})
	if err != nil {
		return err
	}
	return editStatus(ctx, c, claim, "record launch of claim", func() (changed bool) {
		before := claim.Status.DeepCopy()
		claim.Status.ProviderID = got.ID
		claim.Status.ImageID = got.ImageID
		claim.Status.Capacity = translate.ResourceList(got.Capacity)
		claim.Status.Allocatable = translate.ResourceList(got.Allocatable)
		condition.ForNodeClaim(claim).SetTrue(lifecycle.Launched, now)
		return !equality.Semantic.DeepEqual(before, &claim.Status)
	})
}

// WriteNotes writes a step's notes, and with Registered the Node's name, on a claim. It
// returns the conditions that became True by it.
func WriteNotes(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, step *lifecycle.Step, now time.Time) (turned []string, err error) {
	set := condition.ForNodeClaim(claim)
	err = editStatus(ctx, c, claim, "write conditions of claim", func() (changed bool) {
		for _, n := range step.Notes {
			if n.Status == lifecycle.True && !set.IsTrue(n.Type) {
				turned = append(turned, n.Type)
			}
			if n.Type == lifecycle.Registered && n.Status == lifecycle.True {
				changed = changed || claim.Status.NodeName != step.Node
				claim.Status.NodeName = step.Node
			}
			c := metav1.Condition{Type: n.Type, Status: metav1.ConditionStatus(n.Status), Reason: n.Reason, Message: n.Message}
			changed = set.Set(c, now) || changed
		}
		return changed
	})
	if err != nil {
		return nil, err
	}
	return turned, nil
}

// NotePodEvent writes on a claim when a pod last came to its node or left it. It does
// not mind what else is written meanwhile.
func NotePodEvent(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, at time.Time) error {
	before := *claim
	claim.Status.LastPodEventTime = metav1.NewTime(at)
	if err := sendStatus(ctx, c, claim, mergeFrom(&before)); err != nil {
		return fmt.Errorf("note pod event on claim %s: %w", claim.Name, err)
	}
	return nil
}

// Remove deletes a claim or Node, if it is still the one that was seen; one that is gone is no
// error. A conflict is: it may be for a moment only, and then nobody else would try again.
func Remove(ctx context.Context, c client.Client, obj client.Object) error {
	return remove(ctx, c, obj, client.Preconditions{UID: new(obj.GetUID())})
}

// RemoveAsSeen is Remove, if nobody has written to the object since it was read: a leader that
// stood still for so long that another leads by now must not act on what it saw before.
func RemoveAsSeen(ctx context.Context, c client.Client, obj client.Object) error {
	return remove(ctx, c, obj, client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())})
}

func remove(ctx context.Context, c client.Client, obj client.Object, only client.Preconditions) error {
	err := c.Delete(ctx, obj, only)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", obj.GetName(), err)
	}
	return nil
}

// edit changes an object's metadata or a Node's taints and sends the difference, on the condition
// that nobody has written since it was read. No difference, no request.
//
// Here as in all that writes claims and Nodes, what an object points to may be a cache's: it is
// not changed in place.
func edit(ctx context.Context, c client.Client, obj client.Object, doing string, change func()) error {
	before := shallow(obj)
	loosen(obj)
	change()
	same := true
	eachDifference(before, obj, false, func(_, _ int, had, has reflect.Value) {
		same = same && equality.Semantic.DeepEqual(had.Interface(), has.Interface())
	})
	if same {
		return nil
	}
	if err := send(ctx, c, obj, mergeFromSeen(before)); err != nil {
		return fmt.Errorf("%s %s: %w", doing, obj.GetName(), err)
	}
	return nil
}

// loosen gives an object maps and slices of its own where edits change them in place.
func loosen(obj client.Object) {
	obj.SetLabels(maps.Clone(obj.GetLabels()))
	obj.SetAnnotations(maps.Clone(obj.GetAnnotations()))
	obj.SetFinalizers(slices.Clone(obj.GetFinalizers()))
	obj.SetOwnerReferences(slices.Clone(obj.GetOwnerReferences()))
	if node, is := obj.(*corev1.Node); is {
		node.Spec.Taints = slices.Clone(node.Spec.Taints)
	}
}

// editStatus is edit for the status of a claim; change reports whether it changed anything, and
// changes nothing in place but conditions. The lock matters there too: a merge patch replaces the
// whole list of conditions.
func editStatus(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, doing string, change func() bool) error {
	before := *claim
	claim.Status.Conditions = slices.Clone(claim.Status.Conditions)
	if !change() {
		return nil
	}
	if err := sendStatus(ctx, c, claim, mergeFromSeen(&before)); err != nil {
		return fmt.Errorf("%s %s: %w", doing, claim.Name, err)
	}
	return nil
}

// overlay returns a map with both's entries, top's where both have one; nil if there are none.
func overlay(bottom, top map[string]string) map[string]string {
	if len(bottom)+len(top) == 0 {
		return nil
	}
	both := make(map[string]string, len(bottom)+len(top))
	maps.Copy(both, bottom)
	maps.Copy(both, top)
	return both
}
