package nodepool

import (
	"context"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/apply"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

// reconcileValidation says in the pool's condition what is wrong with its spec that the
// API server could not know.
func (c *Controllers) reconcileValidation(ctx context.Context, np *karpenterv1.NodePool) error {
	wrong := translate.ValidatePool(np, c.Vocabulary)
	return apply.EditPool(ctx, c.Client, np, func() {
		conditions := condition.ForNodePool(np)
		if wrong != nil {
			conditions.SetFalse(karpenterv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", wrong.Error(), c.Now())
			return
		}
		conditions.SetTrue(karpenterv1.ConditionTypeValidationSucceeded, c.Now())
	})
}
