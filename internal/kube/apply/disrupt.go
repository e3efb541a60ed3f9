package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// Disrupter taints, untaints and removes nodes by our own choice.
type Disrupter struct {
	Client   client.Client
	Launcher *Launcher
	Now      func() time.Time
	// OneByOne: nodes are written one after the other, as with the Launcher.
	OneByOne bool
}

// Close puts the disrupted taint on a node whose claim has a disruption reason.
func (d *Disrupter) Close(ctx context.Context, r plan.Removal) error { return d.setTaint(ctx, r, true) }

// Unmark opens a node to pods again: it takes off what Begin wrote, in the opposite order.
func (d *Disrupter) Unmark(ctx context.Context, r plan.Removal) error {
	if err := d.setTaint(ctx, r, false); err != nil {
		return err
	}
	var nc karpenterv1.NodeClaim
	if err := d.Client.Get(ctx, client.ObjectKey{Name: r.Claim}, &nc, client.UnsafeDisableDeepCopy); err != nil {
		return wrap("open", r.Claim, err)
	}
	if r.Reason == plan.Unhealthy && nc.DeletionTimestamp == nil {
		// The deletion did not reach the API server. A later drain must not end pods at once.
		if err := ClearDeadline(ctx, d.Client, &nc); err != nil {
			return err
		}
	}
	if err := d.setReason(ctx, &nc, ""); err != nil {
		return err
	}
	return d.setStep(ctx, &nc, "")
}

// mark writes on a node's claim which command it is part of, and why.
func (d *Disrupter) mark(ctx context.Context, r plan.Removal, step string) error {
	var nc karpenterv1.NodeClaim
	if err := d.Client.Get(ctx, client.ObjectKey{Name: r.Claim}, &nc, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("mark %s: %w", r.Claim, err) // gone: the command is not what it was
	}
	if err := d.setStep(ctx, &nc, step); err != nil {
		return err
	}
	return d.setReason(ctx, &nc, r.Reason)
}

// Remove deletes the claim of a node; drain and termination follow from that. If the drain has a
// bound, the claim first gets its deadline, counted from now, unless it has an earlier one. It returns
// the claim, or nil when it was gone already.
func (d *Disrupter) Remove(ctx context.Context, r plan.Removal) (*karpenterv1.NodeClaim, error) {
	var nc karpenterv1.NodeClaim
	if err := d.Client.Get(ctx, client.ObjectKey{Name: r.Claim}, &nc, client.UnsafeDisableDeepCopy); err != nil {
		return nil, wrap("remove", r.Claim, err)
	}
	if nc.DeletionTimestamp != nil {
		return nil, nil
	}
	if err := d.bound(ctx, &nc, r); err != nil {
		return nil, err
	}
	if err := RemoveAsSeen(ctx, d.Client, &nc); err != nil {
		return nil, err
	}
	return &nc, nil
}

// bound sets the deadline of a claim that is about to be deleted. Another controller's write between
// reading and deleting makes it fail, and the next decision tries again.
func (d *Disrupter) bound(ctx context.Context, nc *karpenterv1.NodeClaim, r plan.Removal) error {
	if !r.Bound.IsSet {
		return nil
	}
	return tightenDeadline(ctx, d.Client, nc, d.Now().Add(r.Bound.Within))
}

// setReason writes the condition; an empty reason takes it away.
func (d *Disrupter) setReason(ctx context.Context, nc *karpenterv1.NodeClaim, reason string) error {
	before := *nc
	nc.Status.Conditions = slices.Clone(nc.Status.Conditions)
	set := condition.ForNodeClaim(nc)
	changed := set.Clear(karpenterv1.ConditionTypeDisruptionReason)
	if reason != "" {
		// Cleared first, so that the transition time is that of this disruption.
		changed = set.Set(metav1.Condition{Type: karpenterv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, Reason: reason, Message: reason}, d.Now())
	}
	if !changed {
		return nil
	}
	return wrap("mark", nc.Name, sendStatus(ctx, d.Client, nc, mergeFromSeen(&before)))
}

// setStep writes on a claim which command it is part of; an empty text takes that away.
func (d *Disrupter) setStep(ctx context.Context, nc *karpenterv1.NodeClaim, text string) error {
	if nc.Annotations[translate.StepAnnotationKey] == text {
		return nil
	}
	before := shallow(nc)
	loosen(nc)
	if text == "" {
		delete(nc.Annotations, translate.StepAnnotationKey)
	} else {
		metav1.SetMetaDataAnnotation(&nc.ObjectMeta, translate.StepAnnotationKey, text)
	}
	return wrap("mark", nc.Name, send(ctx, d.Client, nc, mergeFrom(before)))
}

// AddSoftTaint asks kube-scheduler to put pods elsewhere if it can.
func (d *Disrupter) AddSoftTaint(ctx context.Context, nodes []string) error {
	return each(len(nodes), d.OneByOne, func(i int) error { return d.taint(ctx, nodes[i], translate.PreferOthersTaint(), true) })
}

// RemoveSoftTaint takes the soft taint off again.
func (d *Disrupter) RemoveSoftTaint(ctx context.Context, nodes []string) error {
	return each(len(nodes), d.OneByOne, func(i int) error { return d.taint(ctx, nodes[i], translate.PreferOthersTaint(), false) })
}

func (d *Disrupter) setTaint(ctx context.Context, r plan.Removal, closed bool) error {
	return d.taint(ctx, r.Node, karpenterv1.DisruptedTaint(), closed)
}

// taint gives a Node a taint, or takes it away.
func (d *Disrupter) taint(ctx context.Context, name string, taint corev1.Taint, there bool) error {
	var node corev1.Node
	if err := d.Client.Get(ctx, client.ObjectKey{Name: name}, &node, client.UnsafeDisableDeepCopy); err != nil {
		return wrap("taint", name, err)
	}
	if !there && node.DeletionTimestamp != nil {
		return nil // it is being drained and keeps its taint
	}
	before := node
	loosen(&node)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == taint.Key || translate.IsDisruptedTaint(taint) && translate.IsDisruptedTaint(t)
	})
	if there {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	if slices.Equal(taintNames(before.Spec.Taints), taintNames(node.Spec.Taints)) {
		return nil
	}
	return wrap("taint", name, send(ctx, d.Client, &node, mergeFromSeen(&before)))
}

func taintNames(taints []corev1.Taint) []string {
	names := make([]string, 0, len(taints))
	for _, t := range taints {
		names = append(names, t.ToString())
	}
	return names
}

// wrap adds to an error what was being done to which object; an object that is gone is no error.
func wrap(doing, name string, err error) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, name, err)
}
