package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

const (
	// recordPrefix keeps a record's name off that of the Node's own heartbeat Lease.
	recordPrefix = "launch-"
	recordLabel  = kwokv1alpha1.Group + "/launch"
	recordValue  = "waiting"
	nodeJSONKey  = kwokv1alpha1.Group + "/launch-node"
	joinsAtKey   = kwokv1alpha1.Group + "/launch-joins-at"

	joinsAtOnce = 16
	// observeAgain is when Start looks for records without being woken.
	observeAgain = time.Minute
	// errorRetry is the pause after a join that may work the next time.
	errorRetry = time.Second
	// refusedRetry is the pause after a join that somebody has to make possible.
	refusedRetry = 10 * time.Second
	// joinTakesMost is how long whoever created a Node needs to delete its record.
	joinTakesMost = 10 * time.Second
)

// record writes down that the Node joins at the given time.
func (p *Provider) record(ctx context.Context, node *corev1.Node, joinsAt time.Time) (cloud.Instance, error) {
	content, err := json.Marshal(node)
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("write record: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: recordPrefix + node.Name, Namespace: corev1.NamespaceNodeLease,
		Labels:      map[string]string{recordLabel: recordValue},
		Annotations: map[string]string{nodeJSONKey: string(content), joinsAtKey: joinsAt.UTC().Format(time.RFC3339Nano)},
	}}
	if err := p.client.Create(ctx, lease); err != nil {
		return cloud.Instance{}, err
	}
	select {
	case p.recorded <- struct{}{}:
	default: // Start is going to look anyway
	}
	instance := p.instanceOf(node)
	instance.Created = lease.CreationTimestamp.Time
	return instance, nil
}

// parseRecord returns the Node that a record is for, and when it joins.
func parseRecord(lease *coordinationv1.Lease) (*corev1.Node, time.Time, error) {
	node := &corev1.Node{}
	if err := json.Unmarshal([]byte(lease.Annotations[nodeJSONKey]), node); err != nil {
		return nil, time.Time{}, fmt.Errorf("read record %s: %w", lease.Name, err)
	}
	joinsAt, err := time.Parse(time.RFC3339Nano, lease.Annotations[joinsAtKey])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read record %s: %w", lease.Name, err)
	}
	return node, joinsAt, nil
}

// records returns all there are.
func (p *Provider) records(ctx context.Context) ([]coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	err := p.reader.List(ctx, &list, client.InNamespace(corev1.NamespaceNodeLease), client.MatchingLabels{recordLabel: recordValue})
	if err != nil {
		return nil, fmt.Errorf("list launch records: %w", err)
	}
	return list.Items, nil
}

// recordOf returns the record of the Node of that name.
func (p *Provider) recordOf(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := p.reader.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: recordPrefix + name}, lease)
	return lease, err
}

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
	now, wait := p.now(), observeAgain
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

// nameOf returns the name of the Node with that providerID.
func nameOf(instanceID string) (string, bool) { return strings.CutPrefix(instanceID, idPrefix) }
