package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// rebootsMost is how often a NodeClaim is rebooted within rebootsWithin. What two reboots have
	// not mended is replaced.
	rebootsMost   = 2
	rebootsWithin = 24 * time.Hour
)

// Reboots requests reboots of nodes, and remembers how many. What it remembers is lost when the process
// ends. It may be used from several goroutines.
type Reboots struct {
	Client client.Client
	Now    func() time.Time

	mu        sync.Mutex
	requested map[types.UID][]time.Time // by NodeClaim: when, within rebootsWithin; guarded by mu
}

// Request writes on a NodeClaim that its instance is to be rebooted. ErrOvertaken: it is being rebooted
// or deleted by now.
func (r *Reboots) Request(ctx context.Context, reboot *plan.Reboot) error {
	var nc karpenterv1.NodeClaim
	if err := r.Client.Get(ctx, client.ObjectKey{Name: reboot.Claim}, &nc, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("request reboot of claim %s: %w", reboot.Claim, err)
	}
	if nc.DeletionTimestamp != nil || translate.IsRebooting(&nc) {
		return fmt.Errorf("request reboot of claim %s: %w", reboot.Claim, ErrOvertaken)
	}
	bound := reboot.Bound
	if grace := nc.Spec.TerminationGracePeriod; !bound.IsSet && grace != nil {
		bound.IsSet, bound.Within = true, grace.Duration
	}
	// The bound comes first, so that no reboot begins without it. A command that failed before it gave the claim
	// its reason has left its step: a reboot is no part of it.
	err := edit(ctx, r.Client, &nc, "request reboot of claim", func() {
		delete(nc.Annotations, translate.StepAnnotationKey)
		delete(nc.Annotations, karpenterv1.RebootBootIDAnnotationKey)
		delete(nc.Annotations, karpenterv1.RebootGraceAnnotationKey)
		if bound.IsSet {
			metav1.SetMetaDataAnnotation(&nc.ObjectMeta, karpenterv1.RebootGraceAnnotationKey, bound.Within.String())
		}
	})
	if err != nil {
		return err
	}
	now := r.Now()
	err = editStatus(ctx, r.Client, &nc, "request reboot of claim", func() bool {
		set := condition.ForNodeClaim(&nc)
		set.Clear(karpenterv1.ConditionTypeDisruptionReason) // so that the transition time is that of this disruption
		set.Set(metav1.Condition{Type: karpenterv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue, Reason: plan.Unhealthy, Message: plan.Unhealthy}, now)
		message := fmt.Sprintf("rebooting for %s/%s", reboot.Condition, reboot.Cause)
		return set.Set(metav1.Condition{Type: lifecycle.Rebooting, Status: metav1.ConditionTrue, Reason: lifecycle.RebootRequested, Message: message}, now)
	})
	if err == nil || mayBeWritten(err) {
		r.count(nc.UID, now)
	}
	return err
}

// mayBeWritten reports whether a write may have had its effect though it failed: nobody knows.
func mayBeWritten(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError:
		return true
	default:
		return false
	}
}

// count remembers a reboot, and forgets those that are long ago.
func (r *Reboots) count(claim types.UID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requested == nil {
		r.requested = map[types.UID][]time.Time{}
	}
	r.requested[claim] = append(r.requested[claim], now)
	for uid := range r.requested {
		r.requested[uid] = slices.DeleteFunc(r.requested[uid], func(at time.Time) bool { return !now.Before(at.Add(rebootsWithin)) })
		if len(r.requested[uid]) == 0 {
			delete(r.requested, uid)
		}
	}
}

// IsEscalated reports whether a NodeClaim was rebooted so often of late that it is to be replaced.
func (r *Reboots) IsEscalated(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, within := r.Now(), 0
	for _, at := range r.requested[claim] {
		if now.Before(at.Add(rebootsWithin)) {
			within++
		}
	}
	return within >= rebootsMost
}

// TaintRebooting keeps new pods from a Node whose instance is rebooted.
func TaintRebooting(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "taint node", func() { addTaints(node, []corev1.Taint{karpenterv1.RebootingTaint()}) })
}

// UntaintRebooting takes back what TaintRebooting did.
func UntaintRebooting(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "untaint node", func() {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpenterv1.RebootingTaintKey })
	})
}

// UninitializeNode takes back what InitializeNode did.
func UninitializeNode(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "uninitialize node", func() { delete(node.Labels, karpenterv1.NodeInitializedLabelKey) })
}

// RecordBootID writes on a NodeClaim the boot ID that its Node has before the reboot.
func RecordBootID(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, bootID string) error {
	return edit(ctx, c, claim, "record boot id of claim", func() {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpenterv1.RebootBootIDAnnotationKey, bootID)
	})
}

// EndReboot writes on a NodeClaim how its reboot has ended, and that nothing disrupts it any more.
func EndReboot(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, step *lifecycle.Step, now time.Time) error {
	return editStatus(ctx, c, claim, "end reboot of claim", func() bool {
		set := condition.ForNodeClaim(claim)
		set.Clear(karpenterv1.ConditionTypeDisruptionReason)
		return set.SetFalse(lifecycle.Rebooting, step.Reason, step.Why, now)
	})
}

// ClearReboot removes what a reboot that is over has left on its NodeClaim.
func ClearReboot(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim) error {
	return edit(ctx, c, claim, "clear reboot of claim", func() {
		delete(claim.Annotations, karpenterv1.RebootBootIDAnnotationKey)
		delete(claim.Annotations, karpenterv1.RebootGraceAnnotationKey)
	})
}

// FailReboot gives a NodeClaim up whose reboot has failed: the drain that follows may take no longer
// than that before the reboot. node may be nil.
func FailReboot(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, node *corev1.Node, now time.Time) error {
	if node != nil {
		if err := UntaintRebooting(ctx, c, node); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if bound, err := translate.RebootBound(claim); err == nil && bound.IsSet {
		if err := tightenDeadline(ctx, c, claim, now.Add(bound.Within)); err != nil {
			return err
		}
	}
	return RemoveAsSeen(ctx, c, claim)
}
