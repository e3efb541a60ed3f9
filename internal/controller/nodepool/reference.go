package nodepool

import (
	"context"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// reconcileReference writes what a NodePool's reference to its node class leaves out. It says so
// where nobody has named the class. A NodePool whose reference is incomplete is nobody's: the other
// loops leave it alone until then.
func (c *Controllers) reconcileReference(ctx context.Context, np *karpenterv1.NodePool) error {
	ref := np.Spec.Template.Spec.NodeClassRef
	full := convert.Complete(ref, c.Cloud.ClassKinds()[0])
	if full == ref {
		return nil
	}
	if err := apply.SetNodeClass(ctx, c.Client, np, full); err != nil {
		return err
	}
	if ref == nil {
		c.Events.Event(np, observe.NodeClassAssumed(full.Kind+"/"+full.Name+" of group "+full.Group))
	}
	return nil
}
