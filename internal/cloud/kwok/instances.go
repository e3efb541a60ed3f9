package kwok

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// pageOf is how many Nodes are read at once: thousands of them are tens of megabytes.
const pageOf = 500

// Terminate deletes the Node, and the record if it has not joined yet. An instance that is
// only an object is gone at once: the answer is ErrNotFound, though the Node may stay
// for as long as somebody's finalizer holds it.
func (p *Provider) Terminate(ctx context.Context, instanceID string) error {
	gone := fmt.Errorf("terminate %s: %w", instanceID, cloud.ErrNotFound)
	name, ours := nameOf(instanceID)
	if !ours {
		return gone
	}
	// The record first: a join that is under way sees that it is gone and takes the Node back.
	lease, err := p.recordOf(ctx, name)
	if err == nil {
		err = p.client.Delete(ctx, lease)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("terminate %s: %w", instanceID, err)
	}
	node := &corev1.Node{}
	err = p.reader.Get(ctx, client.ObjectKey{Name: name}, node)
	if err == nil && node.DeletionTimestamp == nil && node.Spec.ProviderID == instanceID {
		err = p.client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("terminate %s: %w", instanceID, err)
	}
	return gone
}

// Get returns the instance, joined or not; ErrNotFound if its Node is being deleted.
func (p *Provider) Get(ctx context.Context, instanceID string) (cloud.Instance, error) {
	name, ours := nameOf(instanceID)
	if !ours {
		return cloud.Instance{}, fmt.Errorf("get %s: %w", instanceID, cloud.ErrNotFound)
	}
	instance, err := p.find(ctx, name)
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get %s: %w", instanceID, err)
	}
	if instance.Terminating || instance.ID != instanceID {
		return cloud.Instance{}, fmt.Errorf("get %s: %w", instanceID, cloud.ErrNotFound)
	}
	return instance, nil
}

// List returns the instances, joined or not, sorted by ID.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	// Records before Nodes: an instance that joins in between is then seen twice, not never.
	leases, err := p.records(ctx)
	if err != nil {
		return nil, err
	}
	var instances []cloud.Instance
	joined := map[string]bool{}
	for next, more := "", true; more; more = next != "" {
		var nodes corev1.NodeList
		if err := p.reader.List(ctx, &nodes, client.Limit(pageOf), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range nodes.Items {
			if _, ours := nameOf(nodes.Items[i].Spec.ProviderID); ours {
				joined[nodes.Items[i].Name] = true
				instances = append(instances, p.instanceOf(&nodes.Items[i]))
			}
		}
		next = nodes.Continue
	}
	for i := range leases {
		node, _, err := parseRecord(&leases[i])
		if err != nil || joined[node.Name] {
			continue // Start reports damaged ones
		}
		instances = append(instances, p.waiting(node, leases[i].CreationTimestamp))
	}
	slices.SortFunc(instances, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	return instances, nil
}

// find returns the instance whose Node has that name, joined or not.
func (p *Provider) find(ctx context.Context, name string) (cloud.Instance, error) {
	// The record before the Node, for the reason given in List.
	lease, err := p.recordOf(ctx, name)
	if err == nil {
		node, _, err := parseRecord(lease)
		if err != nil {
			return cloud.Instance{}, err
		}
		return p.waiting(node, lease.CreationTimestamp), nil
	}
	if !apierrors.IsNotFound(err) {
		return cloud.Instance{}, fmt.Errorf("get launch record of %s: %w", name, err)
	}
	node := &corev1.Node{}
	err = p.reader.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return cloud.Instance{}, cloud.ErrNotFound
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get node %s: %w", name, err)
	}
	return p.instanceOf(node), nil
}

func (p *Provider) waiting(node *corev1.Node, created metav1.Time) cloud.Instance {
	instance := p.instanceOf(node)
	instance.Created = created.Time
	return instance
}
