package kwok

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
