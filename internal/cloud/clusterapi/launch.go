package clusterapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// launchesAtOnce bounds the launches that are under way.
	launchesAtOnce = 10

	// drainHook has Cluster API wait, before it ends a Machine that somebody deletes, until we have
	// replaced and drained its node. Terminate takes it off.
	drainHook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"
	// noDrain and noVolumeWait: the node has been drained, and its volumes are detached, before its
	// Machine is deleted.
	noDrain      = "machine.cluster.x-k8s.io/exclude-node-draining"
	noVolumeWait = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
)

// Launch creates a Machine for each request, and what it refers to.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var group errgroup.Group
	group.SetLimit(launchesAtOnce)
	for i := range requests {
		group.Go(func() error {
			results[i] = p.launch(ctx, &requests[i])
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
	return results
}

func (p *Provider) launch(ctx context.Context, r *cloud.LaunchRequest) cloud.LaunchResult {
	class, err := getClass(ctx, p.reader, r.Class)
	if errors.Is(err, cloud.ErrNotFound) {
		err = &cloud.Failure{Kind: cloud.NoCapacity, Message: err.Error()}
	}
	if err != nil {
		return cloud.LaunchResult{Err: err}
	}
	l, err := p.listing(ctx, class)
	var unclear *unclearError
	if errors.As(err, &unclear) {
		err = &cloud.Failure{Kind: cloud.ClassNotReady, Reason: unclear.reason, Message: fmt.Sprintf("node class %s is not ready: %s", class.Name, unclear)}
	}
	if err != nil {
		return cloud.LaunchResult{Err: err}
	}
	kind, err := p.mgmt.core(kindMachine)
	if err != nil {
		return cloud.LaunchResult{Err: err}
	}
	object, err := p.mgmt.get(ctx, kind, client.ObjectKey{Namespace: l.namespace, Name: objectName(r.Claim)})
	isNew := l.namespace == "" || apierrors.IsNotFound(err)
	if isNew {
		object, err = p.create(ctx, kind, class, l, r)
	}
	if err != nil {
		return cloud.LaunchResult{Err: err}
	}
	result := p.resume(ctx, object, r)
	if isNew { // it was accepted; that it has failed since, Get says
		result.Instance.Failed = nil
	}
	return result
}

// create creates the Machine of a request.
func (p *Provider) create(ctx context.Context, kind schema.GroupVersionKind, class *clusterapiv1alpha1.ClusterAPINodeClass, l *listing, r *cloud.LaunchRequest) (*unstructured.Unstructured, error) {
	if !l.usable() {
		return nil, &cloud.Failure{Kind: cloud.ClassNotReady, Reason: reasonNothingUsable, Message: fmt.Sprintf("node class %s is not ready: %s", class.Name, nothingUsable(l))}
	}
	e := choose(l, r.Choices)
	if e == nil {
		return nil, &cloud.Failure{Kind: cloud.NoCapacity, Message: fmt.Sprintf("no %s that may be launched from has room for another node", kindDeployment)}
	}
	uid, err := p.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	object, err := newMachine(kind, e, r)
	if err != nil {
		return nil, err
	}
	labels := object.GetLabels()
	labels[ownerLabel] = uid
	object.SetLabels(labels)
	err = p.mgmt.client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) { // another process, with the same request
		return p.mgmt.get(ctx, kind, client.ObjectKeyFromObject(object))
	}
	if err != nil {
		return nil, refusal(fmt.Sprintf("create %s %s", kindMachine, client.ObjectKeyFromObject(object)), err)
	}
	return object, nil
}

// choose returns what is launched: the first choice that something is left of.
func choose(l *listing, choices []catalog.Choice) *entry {
	for _, c := range choices {
		if e := l.take(catalog.Place{Type: c.Type.Name, Zone: c.Offering.Zone, CapacityType: c.Offering.CapacityType}); e != nil {
			return e
		}
	}
	return nil
}

// refusal returns what a launch is answered with when a write has failed.
func refusal(what string, err error) error {
	if isRefused(err) {
		return &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("%s: %s", what, err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// newMachine returns the Machine for a request, as the MachineDeployment would make it, but for what
// would have a MachineSet adopt it.
func newMachine(kind schema.GroupVersionKind, e *entry, r *cloud.LaunchRequest) (*unstructured.Unstructured, error) {
	d := e.deployment
	spec := fields(runtime.DeepCopyJSON(d.template.at("spec")))
	delete(spec, "providerID")
	spec["clusterName"] = d.cluster
	if e.domain != "" {
		spec["failureDomain"] = e.domain
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(d.key.Namespace)
	object.SetName(objectName(r.Claim))
	spec["infrastructureRef"] = referenceTo(target(e.deployment.infrastructure, object), kind.Version)
	if d.bootstrap != nil {
		bootstrap := spec.at("bootstrap")
		bootstrap["configRef"] = referenceTo(target(e.deployment.bootstrap, object), kind.Version)
	}
	object.Object["spec"] = map[string]any(spec)

	labels := d.template.texts("metadata", "labels")
	for key := range d.selects {
		delete(labels, key)
	}
	for _, key := range []string{"cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/set-name", "machine-template-hash"} {
		delete(labels, key)
	}
	for key, value := range r.Labels {
		if isSynced(key) {
			labels[key] = value
		}
	}
	labels[clusterNameLabel], labels[MemberLabel] = d.cluster, ""
	object.SetLabels(labels)

	content, err := json.Marshal(newRecord(e, r))
	if err != nil {
		return nil, fmt.Errorf("write the record of claim %s: %w", r.Claim, err)
	}
	annotations := d.template.texts("metadata", "annotations")
	annotations[recordAnnotation] = string(content)
	annotations[drainHook], annotations[noDrain], annotations[noVolumeWait] = "dovetail", "", ""
	object.SetAnnotations(annotations)
	return object, nil
}

// target returns the kind and name of what is cloned from a template for a Machine.
func target(template, owner *unstructured.Unstructured) *unstructured.Unstructured {
	return clone(template, owner, "")
}

// newRecord returns the record of a launch.
func newRecord(e *entry, r *cloud.LaunchRequest) *record {
	labels := map[string]string{}
	for key, requirement := range e.typ.Requirements {
		if value, ok := requirement.Only(); ok {
			labels[key] = value
		}
	}
	maps.Copy(labels, map[string]string{label.CapacityType: e.offering.CapacityType})
	delete(labels, label.Zone)
	if e.offering.Zone != "" {
		labels[label.Zone] = e.offering.Zone
	}
	return &record{
		Token: r.Token, Claim: r.Claim, Deployment: e.deployment.key.Name,
		Infrastructure: e.deployment.deployment.infrastructure, Bootstrap: e.deployment.deployment.bootstrap, BootstrapHash: contentHash(e.deployment.bootstrap),
		Labels: labels, Capacity: e.typ.Capacity, Allocatable: e.typ.Allocatable(),
	}
}

// resume makes what a Machine refers to and is not there yet, and returns the instance. A request that
// is repeated finds its Machine and comes here, too.
func (p *Provider) resume(ctx context.Context, object *unstructured.Unstructured, r *cloud.LaunchRequest) cloud.LaunchResult {
	name := client.ObjectKeyFromObject(object)
	rec, err := readRecord(object)
	switch {
	case err != nil || rec.Token != r.Token:
		return cloud.LaunchResult{Err: &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("there is another %s %s, which was not made for this NodeClaim", kindMachine, name)}}
	case object.GetDeletionTimestamp() != nil:
		return cloud.LaunchResult{Err: &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("%s %s was deleted before it had an instance", kindMachine, name)}}
	}
	for _, template := range []reference{rec.Infrastructure, rec.Bootstrap} {
		if template == (reference{}) {
			continue
		}
		if err := p.complete(ctx, object, template, r); err != nil {
			return cloud.LaunchResult{Err: undo(ctx, p, object, err)}
		}
	}
	instance, err := p.instance(ctx, object)
	return cloud.LaunchResult{Instance: instance, Err: err}
}

// complete creates what is cloned from a template, if it is not there.
func (p *Provider) complete(ctx context.Context, owner *unstructured.Unstructured, from reference, r *cloud.LaunchRequest) error {
	what := fmt.Sprintf("clone %s for %s %s", from, kindMachine, client.ObjectKeyFromObject(owner))
	template, err := p.mgmt.getRef(ctx, from, owner.GetNamespace())
	if apierrors.IsNotFound(err) {
		return p.isThere(ctx, owner, from, &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("%s: %s", what, err)})
	}
	if err != nil {
		return refusal(what, err)
	}
	object := clone(template, owner, owner.GetLabels()[clusterNameLabel])
	if err := equip(object, r); err != nil {
		return err
	}
	err = p.mgmt.client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return p.isThere(ctx, owner, from, fmt.Errorf("%s: %w", what, err))
	}
	if err != nil {
		return refusal(what, err)
	}
	return nil
}

// isThere returns nil if what is cloned from a template for a Machine is there and belongs to it, else
// the error.
func (p *Provider) isThere(ctx context.Context, owner *unstructured.Unstructured, from reference, missing error) error {
	from.Kind = from.Kind[:max(0, len(from.Kind)-len(templateSuffix))]
	from.Name = owner.GetName()
	object, err := p.mgmt.getRef(ctx, from, owner.GetNamespace())
	if apierrors.IsNotFound(err) {
		return missing
	}
	if err != nil {
		return err
	}
	for _, o := range object.GetOwnerReferences() {
		if o.UID == owner.GetUID() {
			return nil
		}
	}
	return &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("there is another %s %s/%s, which does not belong to the %s of that name", object.GetKind(), object.GetNamespace(), object.GetName(), kindMachine)}
}

// undo deletes a Machine whose launch was refused, and returns the refusal; or an error, so that the
// request is repeated.
func undo(ctx context.Context, p *Provider, object *unstructured.Unstructured, cause error) error {
	var failure *cloud.Failure
	if !errors.As(cause, &failure) {
		return cause
	}
	if err := p.end(ctx, object); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}
