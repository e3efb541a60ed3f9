package candidacy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
)

const (
	// driftKept is how long an answer serves claims that were asked about together with the one whose turn it was.
	driftKept = time.Minute
	// unknownKept is how long it takes until it is asked again what was not known.
	unknownKept = 10 * time.Second
	// batchMost bounds how many instances are asked about at once, classesMax how many classes have answers that are kept.
	batchMost, classesMax = 1000, 256
)

// batches ask a provider about many instances of a class at once, and keep the answers until their turn comes.
type batches struct {
	cloud.DriftBatcher
	client client.Client
	now    func() time.Time

	mu      sync.Mutex
	classes map[cloud.ClassRef]*answers
}

// answers are those about instances of one class.
type answers struct {
	mu   sync.Mutex // held while the provider is asked
	byID map[string]answer
}

type answer struct {
	cloud.Drift
	until time.Time
}

// of returns the answers of a class.
func (b *batches) of(class cloud.ClassRef) *answers {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.classes[class]
	if a == nil {
		if len(b.classes) >= classesMax || b.classes == nil {
			b.classes = map[cloud.ClassRef]*answers{}
		}
		a = &answers{byID: map[string]answer{}}
		b.classes[class] = a
	}
	return a
}

// forget forgets the answers of a class that has changed, those that are still on their way, too.
func (b *batches) forget(class cloud.ClassRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref := range b.classes {
		if ref.Object() == class {
			delete(b.classes, ref)
		}
	}
}

// drifted returns what the provider says of an instance. It is asked about at once with others of its class whose answers
// are no longer kept.
func (b *batches) drifted(ctx context.Context, class cloud.ClassRef, id string) (reason string, err error) {
	a := b.of(class)
	a.mu.Lock()
	defer a.mu.Unlock()
	if kept, ok := a.byID[id]; ok && b.now().Before(kept.until) {
		return kept.Reason, kept.Err
	}
	for other, kept := range a.byID {
		if !b.now().Before(kept.until) {
			delete(a.byID, other)
		}
	}
	ids, err := b.due(ctx, class, id, a)
	if err != nil {
		return "", err
	}
	said, err := b.DriftedOf(ctx, class, ids)
	for _, id := range ids {
		is, known := said[id]
		switch {
		case err != nil:
			is = cloud.Drift{Err: err}
		case !known:
			is = cloud.Drift{Err: fmt.Errorf("the provider did not say whether instance %s has drifted", id)}
		}
		kept := answer{is, b.now().Add(driftKept)}
		if is.Err != nil && !errors.Is(is.Err, cloud.ErrNotFound) {
			kept.until = b.now().Add(unknownKept)
		}
		a.byID[id] = kept
	}
	return a.byID[id].Reason, a.byID[id].Err
}

// due returns an instance and others of its class that are to be asked about, as many as may be.
func (b *batches) due(ctx context.Context, class cloud.ClassRef, id string, a *answers) ([]string, error) {
	var claims karpenterv1.NodeClaimList
	if err := b.client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the claims of class %s: %w", class, err)
	}
	ids, most := []string{id}, min(b.DriftBatch(class), batchMost)
	for i := range claims.Items {
		claim := &claims.Items[i]
		other := claim.Status.ProviderID
		if len(ids) >= most {
			break
		}
		if _, kept := a.byID[other]; kept || other == "" || other == id || claim.DeletionTimestamp != nil || mirror.ClassOfClaim(claim) != class {
			continue
		}
		ids = append(ids, other)
	}
	return ids, nil
}
