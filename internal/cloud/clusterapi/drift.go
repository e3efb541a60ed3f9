package clusterapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// Drifted compares a Machine with what its MachineDeployment would make now.
func (p *Provider) Drifted(ctx context.Context, ref cloud.ClassRef, instanceID string) (reason string, err error) {
	class, err := getClass(ctx, p.reader, ref)
	if err != nil {
		return "", err
	}
	object, err := p.machine(ctx, instanceID)
	if err != nil {
		return "", fmt.Errorf("drift of %q: %w", instanceID, err)
	}
	r, err := readRecord(object)
	if err != nil {
		return "", err
	}
	if r.Replica { // its MachineDeployment keeps it as it should be
		return "", nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: r.Deployment}
	candidates, err := p.candidates(ctx, class)
	if err != nil {
		return "", fmt.Errorf("drift of %q: %w", instanceID, err)
	}
	i := slices.IndexFunc(candidates, func(c candidate) bool { return c.key == key })
	if i < 0 || candidates[i].going {
		return driftDeployment, nil
	}
	c := &candidates[i]
	if c.fault != "" { // what it would make is not known
		return "", nil
	}
	cluster, err := p.mgmt.getCore(ctx, kindCluster, client.ObjectKey{Namespace: key.Namespace, Name: c.cluster})
	if err != nil {
		return "", err
	}
	var bootstrap *unstructured.Unstructured
	if c.deployment.bootstrap != (reference{}) {
		bootstrap, err = p.mgmt.getRef(ctx, c.deployment.bootstrap, key.Namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	return drifted(object, r, c.deployment, c.domains(cluster.Object), bootstrap), nil
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
