package clusterapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// The reasons of drift.
const (
	driftDeployment = "MachineDeploymentDrift"
	driftVersion    = "VersionDrift"
	driftTemplate   = "TemplateDrift"
	driftBootstrap  = "BootstrapDrift"
	driftDomain     = "FailureDomainDrift"
)

// driftBatch is how many instances may be asked about at once: their Machines are one list.
const driftBatch = 1000

// Drifted compares a Machine with what its MachineDeployment would make now.
func (p *Provider) Drifted(ctx context.Context, ref cloud.ClassRef, instanceID string) (reason string, err error) {
	d, err := newComparison(ctx, p, ref)
	if err != nil {
		return "", err
	}
	object, err := p.machine(ctx, instanceID)
	if err == nil {
		reason, err = d.of(ctx, object)
	}
	if err != nil {
		return "", fmt.Errorf("drift of %q: %w", instanceID, err)
	}
	return reason, nil
}

// DriftBatch returns how many instances of a class may be asked about at once.
func (p *Provider) DriftBatch(cloud.ClassRef) int { return driftBatch }

// DriftedOf answers for many instances what Drifted answers for each, with one list of Machines.
func (p *Provider) DriftedOf(ctx context.Context, ref cloud.ClassRef, instanceIDs []string) (map[string]cloud.Drift, error) {
	d, err := newComparison(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	byID, err := machinesByID(ctx, p)
	if err == nil && slices.ContainsFunc(instanceIDs, func(id string) bool { return byID[id] == nil }) {
		if err = p.adoptNodes(ctx); err == nil { // it may be one of these
			byID, err = machinesByID(ctx, p)
		}
	}
	if err != nil {
		return nil, err
	}
	answers := map[string]cloud.Drift{}
	for _, id := range instanceIDs {
		reason, err := "", cloud.ErrNotFound
		if object := byID[id]; object != nil {
			reason, err = d.of(ctx, object)
		}
		if err != nil {
			err = fmt.Errorf("drift of %q: %w", id, err)
		}
		answers[id] = cloud.Drift{Reason: reason, Err: err}
	}
	return answers, nil
}

// machinesByID returns the Machines that are ours by their provider IDs, and by the provisional ones.
func machinesByID(ctx context.Context, p *Provider) (map[string]*unstructured.Unstructured, error) {
	all, err := p.owned(ctx)
	if err != nil {
		return nil, err
	}
	byID := map[string]*unstructured.Unstructured{}
	for i := range all {
		byID[provisionalID(&all[i])] = &all[i]
		if id := fields(all[i].Object).text("spec", "providerID"); id != "" && byID[id] == nil {
			byID[id] = &all[i]
		}
	}
	return byID, nil
}

// comparison is what Machines of a class are compared with. Each object is read once, when it is needed.
type comparison struct {
	p          *Provider
	candidates func() ([]candidate, error)
	clusters   map[client.ObjectKey]*unstructured.Unstructured
	bootstraps map[bootstrapKey]*unstructured.Unstructured // nil: there is none
}

type bootstrapKey struct {
	reference
	namespace string
}

func newComparison(ctx context.Context, p *Provider, ref cloud.ClassRef) (*comparison, error) {
	class, err := getClass(ctx, p.reader, ref)
	if err != nil {
		return nil, err
	}
	return &comparison{
		p: p, candidates: sync.OnceValues(func() ([]candidate, error) { return p.candidates(ctx, class) }),
		clusters: map[client.ObjectKey]*unstructured.Unstructured{}, bootstraps: map[bootstrapKey]*unstructured.Unstructured{},
	}, nil
}

// of returns in what way a Machine differs from what its MachineDeployment would make.
func (c *comparison) of(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	r, err := readRecord(object)
	if err != nil {
		return "", err
	}
	if r.Replica { // its MachineDeployment keeps it as it should be
		return "", nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: r.Deployment}
	candidates, err := c.candidates()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(candidates, func(c candidate) bool { return c.key == key })
	if i < 0 || candidates[i].going {
		return driftDeployment, nil
	}
	of := &candidates[i]
	if of.fault != "" { // what it would make is not known
		return "", nil
	}
	cluster, err := c.cluster(ctx, client.ObjectKey{Namespace: key.Namespace, Name: of.cluster})
	if err != nil {
		return "", err
	}
	bootstrap, err := c.bootstrap(ctx, of.deployment.bootstrap, key.Namespace)
	if err != nil {
		return "", err
	}
	return drifted(object, r, of.deployment, of.domains(cluster.Object), bootstrap), nil
}

func (c *comparison) cluster(ctx context.Context, key client.ObjectKey) (*unstructured.Unstructured, error) {
	if o, isRead := c.clusters[key]; isRead {
		return o, nil
	}
	o, err := c.p.mgmt.getCore(ctx, kindCluster, key)
	if err == nil {
		c.clusters[key] = o
	}
	return o, err
}

// bootstrap returns a bootstrap template; nil: there is none.
func (c *comparison) bootstrap(ctx context.Context, ref reference, namespace string) (*unstructured.Unstructured, error) {
	key := bootstrapKey{ref, namespace}
	if o, isRead := c.bootstraps[key]; isRead || ref == (reference{}) {
		return o, nil
	}
	o, err := c.p.mgmt.getRef(ctx, ref, namespace)
	if apierrors.IsNotFound(err) {
		o, err = nil, nil
	}
	if err == nil {
		c.bootstraps[key] = o
	}
	return o, err
}

// drifted returns in what way a Machine differs from what its MachineDeployment would make.
func drifted(object *unstructured.Unstructured, r *record, d *deployment, domains []domain, bootstrap *unstructured.Unstructured) string {
	f := fields(object.Object)
	switch {
	case f.text("spec", "version") != d.template.text("spec", "version"):
		return driftVersion
	case r.Infrastructure != d.infrastructure:
		return driftTemplate
	case r.Bootstrap != d.bootstrap || f.text("spec", "bootstrap", "dataSecretName") != d.template.text("spec", "bootstrap", "dataSecretName") && d.bootstrap == (reference{}):
		return driftBootstrap
	case bootstrap != nil && strings.HasPrefix(r.BootstrapHash, bootstrap.GetAPIVersion()+" ") && contentHash(bootstrap) != r.BootstrapHash:
		return driftBootstrap
	case !slices.ContainsFunc(domains, func(o domain) bool { return o.name == f.text("spec", "failureDomain") }):
		return driftDomain
	}
	return ""
}
