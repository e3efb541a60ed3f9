package apply

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

// Candidacy is what makes a NodeClaim's node a candidate for disruption.
type Candidacy struct {
	// Drifted is the reason; empty: it has not drifted.
	Drifted string
	// IsConsolidatable: consolidateAfter of its pool has passed without a pod event.
	IsConsolidatable bool
}

// SetCandidacy writes the conditions Drifted and Consolidatable, which are there only
// while they are true.
func SetCandidacy(ctx context.Context, c client.Client, claim *karpenterv1.NodeClaim, is Candidacy, now time.Time) error {
	return editStatus(ctx, c, claim, "say what may be disrupted about", func() (changed bool) {
		set := condition.ForNodeClaim(claim)
		if is.Drifted != "" {
			changed = set.Set(metav1.Condition{Type: karpenterv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: is.Drifted, Message: is.Drifted}, now)
		} else {
			changed = set.Clear(karpenterv1.ConditionTypeDrifted)
		}
		if is.IsConsolidatable {
			return set.SetTrue(karpenterv1.ConditionTypeConsolidatable, now) || changed
		}
		return set.Clear(karpenterv1.ConditionTypeConsolidatable) || changed
	})
}
