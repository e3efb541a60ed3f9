package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// conditionPaused is True on what Cluster API does nothing about.
const conditionPaused = "Paused"

// provisionalID returns what the instance of a Machine is called before it has a provider ID.
func provisionalID(object *unstructured.Unstructured) string {
	return idPrefix + object.GetNamespace() + "/" + object.GetName()
}

// terminating reports whether a Machine is on its way out. One that somebody else deleted is not, as
// long as it waits for us to drain its node.
func terminating(object *unstructured.Unstructured) bool {
	_, holds := object.GetAnnotations()[drainHook]
	return object.GetDeletionTimestamp() != nil && !holds
}

// instance returns the instance of a Machine.
func (p *Provider) instance(ctx context.Context, object *unstructured.Unstructured) (cloud.Instance, error) {
	r, err := readRecord(object)
	if err != nil {
		return cloud.Instance{}, err
	}
	i := cloud.Instance{
		ID: fields(object.Object).text("spec", "providerID"), Token: r.Token, Claim: r.Claim, Labels: r.Labels, Capacity: r.Capacity, Allocatable: r.Allocatable,
		Created: object.GetCreationTimestamp().Time, Terminating: terminating(object),
	}
	if i.ID == "" {
		i.ID, i.Provisional = provisionalID(object), true
		i.Failed, err = p.failure(ctx, object)
		return i, err
	}
	p.mgmt.remember(i.ID, client.ObjectKeyFromObject(object))
	return i, nil
}

// owned returns all Machines of this cluster that are ours.
func (p *Provider) owned(ctx context.Context) ([]unstructured.Unstructured, error) {
	selector, err := p.ownedBy(ctx)
	if err != nil {
		return nil, err
	}
	return p.mgmt.list(ctx, kindMachine, client.MatchingLabelsSelector{Selector: selector})
}

// machine returns the Machine of an instance; ErrNotFound: there is none, or it is not ours.
func (p *Provider) machine(ctx context.Context, id string) (*unstructured.Unstructured, error) {
	if name, ok := strings.CutPrefix(id, idPrefix); ok {
		namespace, name, _ := strings.Cut(name, "/")
		if namespace == "" || name == "" {
			return nil, cloud.ErrNotFound
		}
		return p.owns(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	}
	if id == "" {
		return nil, cloud.ErrNotFound
	}
	if key, ok := p.mgmt.known(id); ok {
		object, err := p.owns(ctx, key)
		if err == nil && fields(object.Object).text("spec", "providerID") == id {
			return object, nil
		}
		if err != nil && !errors.Is(err, cloud.ErrNotFound) {
			return nil, err
		}
		p.mgmt.forget(id)
	}
	all, err := p.owned(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if own := fields(all[i].Object).text("spec", "providerID"); own != "" {
			p.mgmt.remember(own, client.ObjectKeyFromObject(&all[i]))
		}
	}
	for i := range all {
		if fields(all[i].Object).text("spec", "providerID") == id {
			return &all[i], nil
		}
	}
	adopted, err := p.adoptID(ctx, id)
	if err != nil {
		return nil, err
	}
	if adopted == nil {
		return nil, cloud.ErrNotFound
	}
	return adopted, nil
}

// owns reads a Machine by name; ErrNotFound: there is none, or it is not ours.
func (p *Provider) owns(ctx context.Context, key client.ObjectKey) (*unstructured.Unstructured, error) {
	object, err := p.mgmt.getCore(ctx, kindMachine, key)
	if apierrors.IsNotFound(err) {
		return nil, cloud.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	uid, err := p.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	if object.GetLabels()[ownerLabel] != uid {
		return nil, cloud.ErrNotFound
	}
	return object, nil
}

// Terminate deletes the Machine of an instance. Cluster API deletes what it refers to, and its Node.
func (p *Provider) Terminate(ctx context.Context, instanceID string) error {
	object, err := p.machine(ctx, instanceID)
	if err == nil {
		err = p.end(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("terminate %q: %w", instanceID, err)
	}
	return nil
}

// end deletes a Machine. The hook is taken off first: after a crash in between the Machine is as good as
// before, and whoever wanted its end asks again.
func (p *Provider) end(ctx context.Context, object *unstructured.Unstructured) error {
	r, err := readRecord(object)
	isReplica := err == nil && r.Replica
	annotations := object.GetAnnotations()
	_, holds := annotations[drainHook]
	_, goes := annotations[deleteAnnotation]
	if holds || isReplica && !goes {
		changes := map[string]any{drainHook: nil}
		if isReplica {
			changes[deleteAnnotation] = "yes"
		}
		if err := p.mgmt.annotate(ctx, object, changes); err != nil {
			return err
		}
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		return paused(object)
	case isReplica:
		if err := p.endReplica(ctx, object, r.Deployment); err != nil {
			return err
		}
		return paused(object)
	}
	return p.mgmt.delete(ctx, object)
}

// paused returns an error if Cluster API does nothing about a Machine that is to end, as its status says.
func paused(object *unstructured.Unstructured) error {
	for _, c := range conditions(object.Object) {
		if c.Type == conditionPaused && c.Status == "True" {
			return fmt.Errorf("%s %s is not ended by Cluster API: it is paused (%s)", kindMachine, client.ObjectKeyFromObject(object), c.Message)
		}
	}
	return nil
}

// Get returns one instance.
func (p *Provider) Get(ctx context.Context, instanceID string) (cloud.Instance, error) {
	object, err := p.machine(ctx, instanceID)
	if err == nil && terminating(object) {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return cloud.Instance{}, fmt.Errorf("get %q: %w", instanceID, err)
	}
	return p.instance(ctx, object)
}

// List returns the instances of this cluster, and adopts those of the earlier provider. One whose record cannot be
// read is left alone.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	if err := p.adoptNodes(ctx); err != nil {
		return nil, err
	}
	all, err := p.owned(ctx)
	if err != nil {
		return nil, err
	}
	var out []cloud.Instance
	for i := range all {
		if _, err := readRecord(&all[i]); err != nil {
			p.log.Warn("a Machine is left alone", "error", err)
			continue
		}
		instance, err := p.instance(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		out = append(out, instance)
	}
	return out, nil
}
