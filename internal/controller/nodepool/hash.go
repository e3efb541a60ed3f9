package nodepool

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// reconcileHash keeps the hash of the pool's template on the pool. When the rules of
// hashing have changed, the pool's claims get the new hash too, so that no node seems
// drifted by our own upgrade. The claims go first: the pool's version says that they
// are done, and a crash before that repeats them.
func (c *Controllers) reconcileHash(ctx context.Context, np *karpenterv1.NodePool) error {
	hash := translate.PoolHash(np)
	if np.Annotations[karpenterv1.NodePoolHashVersionAnnotationKey] != karpenterv1.NodePoolHashVersion {
		var claims karpenterv1.NodeClaimList
		if err := c.Client.List(ctx, &claims, client.MatchingLabels{karpenterv1.NodePoolLabelKey: np.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list claims of pool %s: %w", np.Name, err)
		}
		for i := range claims.Items {
			if err := c.migrateClaim(ctx, &claims.Items[i], np, hash); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return apply.Annotate(ctx, c.Client, np, map[string]string{
		karpenterv1.NodePoolHashAnnotationKey: hash, karpenterv1.NodePoolHashVersionAnnotationKey: karpenterv1.NodePoolHashVersion,
	})
}

// migrateClaim brings a claim to the present version of the hash. One that is known to
// have drifted keeps its old hash, and so stays drifted. The claim is the cache's own.
func (c *Controllers) migrateClaim(ctx context.Context, claim *karpenterv1.NodeClaim, np *karpenterv1.NodePool, hash string) error {
	if claim.Annotations[karpenterv1.NodePoolHashVersionAnnotationKey] == karpenterv1.NodePoolHashVersion {
		return nil
	}
	annotations := map[string]string{karpenterv1.NodePoolHashVersionAnnotationKey: karpenterv1.NodePoolHashVersion}
	if after := convert.Template(np).Spec.ExpireAfter.String(); translate.IsOlderClaim(claim) && claim.Spec.ExpireAfter.String() != after {
		annotations[translate.ExpireAfterAnnotationKey] = after
	}
	if !condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeDrifted) {
		annotations[karpenterv1.NodePoolHashAnnotationKey] = hash
	}
	return apply.Annotate(ctx, c.Client, claim.DeepCopy(), annotations)
}
