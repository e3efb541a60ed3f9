package nodepool

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

// reconcileReadiness says in the pool's condition whether its node class can be used.
func (c *Controllers) reconcileReadiness(ctx context.Context, np *karpenterv1.NodePool) error {
	class, err := c.class(ctx, np)
	if err != nil {
		return err
	}
	status, reason, message := classReady(class)
	if class == nil {
		ref := np.Spec.Template.Spec.NodeClassRef
		message = fmt.Sprintf("there is no %s %s", ref.Kind, ref.Name)
	}
	return apply.EditPool(ctx, c.Client, np, func() {
		conditions := condition.ForNodePool(np)
		if status {
			conditions.SetTrue(karpenterv1.ConditionTypeNodeClassReady, c.Now())
			return
		}
		conditions.SetFalse(karpenterv1.ConditionTypeNodeClassReady, reason, message, c.Now())
	})
}

// classReady reports whether a class, nil if it is missing, can be used, and if not why.
func classReady(class *unstructured.Unstructured) (ready bool, reason, message string) {
	if class == nil {
		return false, "NodeClassNotFound", ""
	}
	if class.GetDeletionTimestamp() != nil {
		return false, "NodeClassTerminating", "the node class is being deleted"
	}
	// A status with other fields has no conditions, which is as good as unknown.
	conditions, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, entry := range conditions {
		c, _ := entry.(map[string]any)
		if c["type"] != karpenterv1.ConditionTypeReady {
			continue
		}
		switch reason, _ := c["reason"].(string); c["status"] {
		case string(metav1.ConditionTrue):
			return true, "", ""
		case string(metav1.ConditionFalse):
			message, _ := c["message"].(string)
			return false, cmp.Or(reason, "NodeClassNotReady"), message
		}
	}
	return false, "NodeClassReadinessUnknown", "the node class does not say whether it is ready"
}
