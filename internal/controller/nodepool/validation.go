package nodepool

import (
	"context"
	"errors"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// errStatic is wrong with every static pool while the gate StaticCapacity is off.
var errStatic = errors.New("spec.replicas: the feature gate StaticCapacity is off: no node is launched or removed to meet the number, " +
	"and the nodes that there are stay, drifted or past expireAfter too; switch it on, or use a NodePool without replicas")

// reconcileValidation says in the pool's condition what is wrong with its spec that the
// API server could not know.
func (c *Controllers) reconcileValidation(ctx context.Context, np *karpenterv1.NodePool) error {
	wrong := translate.ValidatePool(np, c.Vocabulary)
	if wrong == nil && translate.Static(np) && !c.StaticCapacity {
		wrong = errStatic
	}
	return apply.EditPool(ctx, c.Client, np, func() {
		conditions := condition.ForNodePool(np)
		if wrong != nil {
			conditions.SetFalse(karpenterv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", wrong.Error(), c.Now())
			return
		}
		conditions.SetTrue(karpenterv1.ConditionTypeValidationSucceeded, c.Now())
	})
}
