package kwok

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Reboot gives the Node another boot ID, made of the token, and that is all: there is nothing that could
// stop, so the Node is Ready all the while, and its pods run on. An instance that has not joined has
// nothing to reboot and is not found.
func (p *Provider) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	node, err := p.nodeOf(ctx, request.InstanceID)
	if err == nil {
		before := node.DeepCopy()
		if node.Status.NodeInfo.BootID = bootIDPrefix + request.Token; node.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID {
			return nil
		}
		err = p.client.Status().Patch(ctx, node, client.MergeFrom(before))
	}
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w: %w", cloud.ErrRebootRefused, err)
	}
	if err != nil {
		return fmt.Errorf("reboot %s: %w", request.InstanceID, err)
	}
	return nil
}

// nodeOf returns the Node of an instance that has joined and is to stay.
func (p *Provider) nodeOf(ctx context.Context, instanceID string) (*corev1.Node, error) {
	name, ours := nameOf(instanceID)
	if !ours {
		return nil, cloud.ErrNotFound
	}
	node := &corev1.Node{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, err
	}
	if node.DeletionTimestamp != nil || node.Spec.ProviderID != instanceID {
		return nil, cloud.ErrNotFound
	}
	return node, nil
}
