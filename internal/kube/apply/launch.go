package apply

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// claimsAtOnce is how many NodeClaims are created in parallel.
const claimsAtOnce = 16

// Launcher turns the launches of plans into NodeClaims. Each loop that launches has its own.
type Launcher struct {
	Client     client.Client
	Mirror     *mirror.Store
	Vocabulary translate.Vocabulary
	// OneByOne: claims are written one after the other, in the plan's order, so that a run
	// can be repeated exactly.
	OneByOne bool
	// PoolLaunches is shared with the other loops that launch.
	PoolLaunches *PoolLaunches

	seen int // of the turns, when the snapshot was taken
}

// Launched is one launch that became a claim.
type Launched struct {
	Launch *plan.Launch
	Claim  *karpenterv1.NodeClaim
}

// Launch creates a claim for each launch of the plan. A launch that fails does not stop
// the others; its pods are still pending and the next plan will see them. Each claim
// counts in the mirror from the moment it exists, with the pods it is meant for. Nothing is
// launched, with ErrOvertaken, if the plan is.
func (l *Launcher) Launch(ctx context.Context, p *plan.Plan) ([]Launched, error) {
	limited := slices.ContainsFunc(p.Launches, l.limited)
	if limited {
		l.PoolLaunches.mu.Lock()
		defer l.PoolLaunches.mu.Unlock()
		if l.overtaken(p.Launches) {
			return nil, ErrOvertaken
		}
	}
	claims := make([]*karpenterv1.NodeClaim, len(p.Launches))
	errs := each(len(p.Launches), l.OneByOne, func(i int) (err error) {
		claims[i], err = l.launch(ctx, &p.Launches[i])
		return err
	})
	var done []Launched
	for i, nc := range claims {
		if nc != nil {
			done = append(done, Launched{&p.Launches[i], nc})
			if limited {
				l.took(p.Launches[i].Pool)
			}
		}
	}
	return done, errs
}

func (l *Launcher) launch(ctx context.Context, launch *plan.Launch) (*karpenterv1.NodeClaim, error) {
	np, ok := l.Mirror.PoolObject(launch.Pool)
	if !ok || np.DeletionTimestamp != nil {
		return nil, nil // the pool went; the next plan will not have it
	}
	nc := translate.NodeClaim(np, launch, l.Vocabulary)
	if err := l.Client.Create(ctx, nc); err != nil {
		return nil, fmt.Errorf("create claim of pool %s: %w", np.Name, err)
	}
	l.Mirror.AssumeClaim(nc.DeepCopy())
	if launch.Replaces == "" { // else its pods stay where they are until it is there
		l.Mirror.Assign(launch.Pods, nc.Name)
	}
	return nc, nil
}
