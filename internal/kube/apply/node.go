package apply

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// RegisterNode makes a Node that has joined its claim's: with our finalizer, owned by the
// claim, carrying what the claim asks for, and open to pods as far as we are concerned.
// All of it is one write, so that no pod comes to a Node that we would not drain.
func RegisterNode(ctx context.Context, c client.Client, node *corev1.Node, claim *karpenterv1.NodeClaim) error {
	return edit(ctx, c, node, "register node", func() {
		adopt(node, claim)
		open(node)
	})
}

// AdoptNode does what RegisterNode does but for opening the Node, which the Nominator then
// does. Until then the unregistered taint only keeps new pods away: with NoExecute,
// kube-controller-manager could evict a pod that it sees bound before it sees that the taint is gone.
func AdoptNode(ctx context.Context, c client.Client, node *corev1.Node, claim *karpenterv1.NodeClaim) error {
	return edit(ctx, c, node, "adopt node", func() {
		adopt(node, claim)
		setUnregisteredEffect(node, corev1.TaintEffectNoSchedule)
	})
}

// HandBackNode undoes what AdoptNode does to the unregistered taint: Karpenter registers a Node and
// removes the taint only with the effect NoExecute.
func HandBackNode(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "hand back node", func() { setUnregisteredEffect(node, corev1.TaintEffectNoExecute) })
}

// setUnregisteredEffect leaves one such taint, because a Node must not have two that are equal.
func setUnregisteredEffect(node *corev1.Node, effect corev1.TaintEffect) {
	i := slices.IndexFunc(node.Spec.Taints, translate.IsUnregisteredTaint)
	if i < 0 {
		return
	}
	node.Spec.Taints[i].Effect = effect
	others := slices.DeleteFunc(node.Spec.Taints[i+1:], translate.IsUnregisteredTaint)
	node.Spec.Taints = node.Spec.Taints[:i+1+len(others)]
}

func adopt(node *corev1.Node, claim *karpenterv1.NodeClaim) {
	controllerutil.AddFinalizer(node, karpenterv1.TerminationFinalizer)
	own(node, claim)
	node.Annotations = overlay(node.Annotations, claim.Annotations)
	node.Labels = overlay(node.Labels, claim.Labels)
	if node.Labels[karpenterv1.NodeDoNotSyncTaintsLabelKey] != karpenterv1.LabelValueTrue {
		addTaints(node, claim.Spec.Taints)
		addTaints(node, claim.Spec.StartupTaints)
	}
}

func open(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, translate.IsUnregisteredTaint)
	metav1.SetMetaDataLabel(&node.ObjectMeta, karpenterv1.NodeRegisteredLabelKey, karpenterv1.LabelValueTrue)
}

// InitializeNode sets the label that says that a Node is initialized.
func InitializeNode(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "initialize node", func() {
		metav1.SetMetaDataLabel(&node.ObjectMeta, karpenterv1.NodeInitializedLabelKey, karpenterv1.LabelValueTrue)
	})
}

// CloseNode keeps new pods, and the load of external balancers, from a Node that is
// being removed.
func CloseNode(ctx context.Context, c client.Client, node *corev1.Node) error {
	return edit(ctx, c, node, "close node", func() {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, translate.IsDisruptedTaint)
		node.Spec.Taints = append(node.Spec.Taints, karpenterv1.DisruptedTaint())
		metav1.SetMetaDataLabel(&node.ObjectMeta, corev1.LabelNodeExcludeBalancers, karpenterv1.ExcludeBalancersLabelValue)
	})
}

// IsClosed reports whether CloseNode has nothing to do.
func IsClosed(node *corev1.Node) bool {
	disrupted := karpenterv1.DisruptedTaint()
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&disrupted) }) &&
		node.Labels[corev1.LabelNodeExcludeBalancers] == karpenterv1.ExcludeBalancersLabelValue
}

// own makes the claim an owner of the Node, so that neither is left behind.
func own(node *corev1.Node, claim *karpenterv1.NodeClaim) {
	block := true
	owner := metav1.OwnerReference{
		APIVersion: karpenterv1.GroupVersion.String(), Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &block,
	}
	owners := slices.DeleteFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	node.OwnerReferences = append(owners, owner)
}

// addTaints adds those whose key and effect the Node has not got.
func addTaints(node *corev1.Node, taints []corev1.Taint) {
	for i := range taints {
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taints[i]) }) {
			node.Spec.Taints = append(node.Spec.Taints, taints[i])
		}
	}
}
