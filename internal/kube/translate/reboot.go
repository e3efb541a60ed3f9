package translate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// IsRebooting reports whether the instance of a NodeClaim is being rebooted.
func IsRebooting(nc *karpenterv1.NodeClaim) bool {
	return trueCondition(nc, karpenterv1.ConditionTypeRebooting) != nil
}

// RebootClaim returns what a reboot depends on of a NodeClaim that is rebooted.
func RebootClaim(nc *karpenterv1.NodeClaim) lifecycle.RebootClaim {
	c := lifecycle.RebootClaim{
		IsDeleting:  nc.DeletionTimestamp != nil,
		Initialized: lifecycleCondition(nc, karpenterv1.ConditionTypeInitialized),
	}
	if rebooting := meta.FindStatusCondition(nc.Status.Conditions, karpenterv1.ConditionTypeRebooting); rebooting != nil {
		c.Requested, c.Message = rebooting.LastTransitionTime.Time, rebooting.Message
		c.IsIssued = rebooting.Reason == lifecycle.RebootIssued
	}
	c.BootID, c.HasBootID = nc.Annotations[karpenterv1.RebootBootIDAnnotationKey]
	var err error
	if c.Bound, err = RebootBound(nc); err != nil {
		c.Unreadable = err.Error()
	}
	return c
}

// RebootBound returns how long the drain before the reboot of a NodeClaim may take.
func RebootBound(nc *karpenterv1.NodeClaim) (cluster.Bound, error) {
	text, is := nc.Annotations[karpenterv1.RebootGraceAnnotationKey]
	if !is {
		return cluster.Bound{}, nil
	}
	within, err := time.ParseDuration(text)
	if err != nil || within < 0 {
		return cluster.Bound{}, fmt.Errorf("annotation %s is %q; it must be a duration of 0s or more", karpenterv1.RebootGraceAnnotationKey, text)
	}
	return cluster.Bound{IsSet: true, Within: within}, nil
}

// RebootNode returns what a reboot depends on of a Node.
func RebootNode(node *corev1.Node) *lifecycle.RebootNode {
	rebooting := karpenterv1.RebootingTaint()
	return &lifecycle.RebootNode{
		Name: node.Name, BootID: node.Status.NodeInfo.BootID, Ready: NodeReady(node),
		IsTainted:     slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&rebooting) }),
		IsInitialized: node.Labels[karpenterv1.NodeInitializedLabelKey] == karpenterv1.LabelValueTrue,
	}
}
