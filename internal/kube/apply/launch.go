package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
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
	// Suffix returns the end of a NodeClaim's name; nil: random ones, as the API server makes them.
	Suffix func() string
	// PoolLaunches is shared with the other loops that launch.
	PoolLaunches *PoolLaunches

	seen int // how many claims PoolLaunches had counted when the snapshot was taken
}

// Launched is one launch that became a claim.
type Launched struct {
	Launch *plan.Launch
	Claim  *karpenterv1.NodeClaim
}

// Launch creates a claim for each launch of the plan. A launch that fails does not stop
// the others; its pods are still pending and the next plan will see them. Each claim
// counts in the mirror from the moment it exists, with the pods it is meant for. Nothing is
// launched, with ErrOvertaken, if the plan is. Each claim names the decision by its ID, unless that is empty.
func (l *Launcher) Launch(ctx context.Context, p *plan.Plan, decision string) ([]Launched, error) {
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
		claims[i], err = l.launch(ctx, &p.Launches[i], decision)
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

func (l *Launcher) launch(ctx context.Context, launch *plan.Launch, decision string) (*karpenterv1.NodeClaim, error) {
	np, ok := l.Mirror.PoolObject(launch.Pool)
	if !ok || np.DeletionTimestamp != nil {
		return nil, nil // the pool went; the next plan will not have it
	}
	nc := translate.NodeClaim(np, launch, l.Vocabulary)
	if decision != "" {
		nc.Annotations[translate.DecisionAnnotationKey] = decision
	}
	if drivers := l.Mirror.RequestedDrivers(launch); len(drivers) > 0 {
		nc.Annotations[karpenterv1.RequestedDRADriversAnnotationKey] = strings.Join(drivers, ",")
	}
	mayExist, err := l.create(ctx, nc)
	if err != nil && !mayExist {
		return nil, fmt.Errorf("create claim of pool %s: %w", np.Name, err)
	}
	l.Mirror.AssumeClaim(nc.DeepCopy()) // also if it may not exist: then it counts for a short time
	if err != nil {
		return nil, fmt.Errorf("create claim %s: it may exist or not: %w", nc.Name, err)
	}
	if launch.Replaces == "" { // else its pods stay where they are until it is there
		l.Mirror.Assign(launch.Pods, nc.Name)
	}
	return nc, nil
}

// createTries is how often the creation of a claim is tried whose answers do not come.
const createTries = 3

// create creates a claim under a name that is chosen here, not by the API server: if the answer
// is lost, the same request again shows whether the claim exists. Without that it would not count
// against its pool's limits until the watch shows it. mayExist: there is an error, and the claim all the same, perhaps; once
// an answer was lost, no later error says that the claim does not exist.
func (l *Launcher) create(ctx context.Context, nc *karpenterv1.NodeClaim) (mayExist bool, err error) {
	isLost := false
	for range createTries {
		if !isLost {
			nc.Name = nc.GenerateName + l.suffix()
		}
		sent := nc.DeepCopy() // an answer may be read in part
		err = l.Client.Create(ctx, sent)
		switch {
		case err == nil:
			*nc = *sent
			return true, nil
		case isLost && apierrors.IsAlreadyExists(err):
			return true, nil
		case apierrors.IsAlreadyExists(err): // another claim has the name
		case ctx.Err() == nil && mayBeDone(err):
			isLost = true
		default:
			return isLost || mayBeDone(err), err
		}
	}
	return isLost, err
}

// suffixLength is how long the API server makes the ends of generated names.
const suffixLength = 5

func (l *Launcher) suffix() string {
	if l.Suffix != nil {
		return l.Suffix()
	}
	return rand.String(suffixLength)
}

// mayBeDone reports whether a request that failed may have been carried out all the same.
func mayBeDone(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError:
		return true
	default:
		return false
	}
}
