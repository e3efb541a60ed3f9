package kwok

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	joinsAtOnce = 16
	// searchAgain is when Start looks for records without being woken.
	searchAgain = time.Minute
	// errorRetry is the pause after a join that may work the next time.
	errorRetry = time.Second
	// refusedRetry is the pause after a join that somebody has to make possible.
	refusedRetry = 10 * time.Second
	// joinTakesMost is how long whoever created a Node needs to delete its record.
	joinTakesMost = 10 * time.Second
)

// Start lets instances join when their time has come, until ctx is done. It begins with
// those that a predecessor left.
func (p *Provider) Start(ctx context.Context) error {
	for {
		timer := time.NewTimer(p.joinDue(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-p.recorded:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// joinDue lets every instance join whose time has come and returns when to look again.
func (p *Provider) joinDue(ctx context.Context) time.Duration {
	leases, err := p.records(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.log.Warn("launch records cannot be read", "error", err)
		}
		return errorRetry
	}
	now, wait := p.now(), searchAgain
	var group errgroup.Group
	group.SetLimit(joinsAtOnce)
	pauses := make([]time.Duration, len(leases))
	for i := range leases {
		node, joinsAt, err := parseRecord(&leases[i])
		if err != nil {
			p.log.Error("launch record is damaged; delete the Lease", "error", err)
			continue
		}
		if left := joinsAt.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		group.Go(func() error {
			pauses[i] = p.join(ctx, node, &leases[i])
			return nil
		})
	}
	_ = group.Wait()
	for _, pause := range pauses {
		if pause > 0 {
			wait = min(wait, pause)
		}
	}
	return wait
}

// join turns a record into its Node and returns when to try again; zero: it is done.
// The record goes last, so that a crash in between leaves both and the next Start
// finishes it. If the record is gone by then, the instance was terminated meanwhile,
// and so is the Node.
func (p *Provider) join(ctx context.Context, node *corev1.Node, lease *coordinationv1.Lease) time.Duration {
	err := p.client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		return p.finishJoin(ctx, node.Name, lease)
	}
	if err != nil {
		p.log.Warn("node could not join", "node", node.Name, "error", err)
		if isRefusal(err) {
			return refusedRetry
		}
		return errorRetry
	}
	err = p.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		p.log.Info("node was terminated while it joined", "node", node.Name)
		err = client.IgnoreNotFound(p.client.Delete(ctx, node))
	}
	if err != nil {
		p.log.Warn("node joined but its launch record remains", "node", node.Name, "error", err)
		return errorRetry
	}
	return 0
}

// finishJoin deletes the record of a Node that is there already, unless the Node is so
// young that whoever made it may be about to: they must not find the record gone.
func (p *Provider) finishJoin(ctx context.Context, name string, lease *coordinationv1.Lease) time.Duration {
	node := &corev1.Node{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return errorRetry
	}
	if left := joinTakesMost - p.now().Sub(node.CreationTimestamp.Time); left > 0 {
		return left
	}
	if err := client.IgnoreNotFound(p.client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID})); err != nil {
		p.log.Warn("node joined but its launch record remains", "node", name, "error", err)
		return errorRetry
	}
	return 0
}

// isRefusal reports whether the API server will keep saying no until somebody changes
// something, an admission policy for one.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}
