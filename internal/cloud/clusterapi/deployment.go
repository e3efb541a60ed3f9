package clusterapi

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

const (
	// MemberLabel marks MachineDeployments that nodes may be launched from, and Machines of ours.
	MemberLabel = "node.cluster.x-k8s.io/karpenter-member"

	pausedAnnotation = "cluster.x-k8s.io/paused"
	// capacityPrefix is of the annotations that Cluster Autoscaler reads, too.
	capacityPrefix    = "capacity.cluster-autoscaler.kubernetes.io/"
	labelsAnnotation  = capacityPrefix + "labels"
	maxSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

// deployment is a MachineDeployment, read.
type deployment struct {
	key     client.ObjectKey
	cluster string
	// annotations are those of the object.
	annotations map[string]string
	// labels are those that its nodes will have.
	labels map[string]string
	// template is spec.template, with metadata and spec of a Machine.
	template fields
	// selects are labels that would have a MachineSet adopt a Machine.
	selects  map[string]string
	replicas int64
	// paused and going: nothing is launched from it.
	paused, going bool

	infrastructure reference
	// bootstrap is the zero reference if the data is in a Secret.
	bootstrap reference
}

// readDeployment reads a MachineDeployment. The error says what makes it unusable.
func readDeployment(o *unstructured.Unstructured) (*deployment, error) {
	f := fields(o.Object)
	d := &deployment{
		key: client.ObjectKeyFromObject(o), cluster: f.text("spec", "clusterName"), annotations: o.GetAnnotations(),
		template: f.at("spec", "template"), selects: f.texts("spec", "selector", "matchLabels"),
		replicas: max(f.number("spec", "replicas"), f.number("status", "replicas")),
		going:    o.GetDeletionTimestamp() != nil,
	}
	_, isPaused := d.annotations[pausedAnnotation]
	d.paused = isPaused || f.flag("spec", "paused")
	var ok bool
	if d.infrastructure, ok = d.template.referenceAt("spec", "infrastructureRef"); !ok {
		return d, fmt.Errorf("it refers to no infrastructure template")
	}
	d.bootstrap, ok = d.template.referenceAt("spec", "bootstrap", "configRef")
	if !ok && d.template.text("spec", "bootstrap", "dataSecretName") == "" {
		return d, fmt.Errorf("it has neither a bootstrap template nor a dataSecretName")
	}
	d.labels = map[string]string{}
	for key, value := range d.template.texts("metadata", "labels") {
		if isSynced(key) {
			d.labels[key] = value
		}
	}
	own, err := pairs(d.annotations[labelsAnnotation])
	if err != nil {
		return d, fmt.Errorf("annotation %s: %w", labelsAnnotation, err)
	}
	maps.Copy(d.labels, own)
	for key, value := range d.labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return d, fmt.Errorf("label %s=%s of its nodes: %s", key, value, strings.Join(problems, "; "))
		}
	}
	return d, nil
}

// isSynced reports whether Cluster API copies a label from a Machine to its Node.
func isSynced(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	for _, synced := range []string{"node.cluster.x-k8s.io", "node-restriction.kubernetes.io"} {
		if domain == synced || strings.HasSuffix(domain, "."+synced) {
			return true
		}
	}
	return domain == "node-role.kubernetes.io"
}

// instanceType returns the name of the instance type of its nodes.
func (d *deployment) instanceType() (string, error) {
	if name := d.labels[label.InstanceType]; name != "" {
		return name, nil
	}
	if problems := validation.IsValidLabelValue(d.key.Name); len(problems) > 0 {
		return "", fmt.Errorf("its name cannot be that of an instance type: set the label %s in the annotation %s", label.InstanceType, labelsAnnotation)
	}
	return d.key.Name, nil
}

// capacityType returns the capacity type of its nodes.
func (d *deployment) capacityType() (string, error) {
	switch t := d.labels[label.CapacityType]; t {
	case "":
		return label.OnDemand, nil
	case label.OnDemand, label.Spot:
		return t, nil
	default:
		return "", fmt.Errorf("annotation %s has %s=%s; it may be %s or %s", labelsAnnotation, label.CapacityType, t, label.OnDemand, label.Spot)
	}
}

// left returns how many more nodes it may have, of which there are some that are ours.
func (d *deployment) left(ours int64) (n int64, limited bool) {
	most, err := strconv.ParseInt(d.annotations[maxSizeAnnotation], 10, 64)
	if err != nil {
		return 0, false
	}
	return most - d.replicas - ours, true
}

// domain is a failure domain: its name, and what the label of its nodes' zone has.
type domain struct{ name, zone string }

// domains returns the failure domains that its nodes can be in; one without a name: nobody says.
func (d *deployment) domains(cluster fields) []domain {
	byName := map[string]string{}
	var all []domain
	add := func(name string, attributes map[string]string) {
		zone := attributes[label.Zone]
		if zone == "" {
			zone = name
		}
		byName[name] = zone
		all = append(all, domain{name, zone})
	}
	for _, fd := range cluster.list("status", "failureDomains") {
		add(fd.text("name"), fd.texts("attributes"))
	}
	old := cluster.at("status", "failureDomains") // a map in v1beta1
	for _, name := range sortedKeys(old) {
		add(name, old.texts(name, "attributes"))
	}
	fixed, zone := d.template.text("spec", "failureDomain"), d.labels[label.Zone]
	switch {
	case zone != "":
		return []domain{{fixed, zone}}
	case fixed != "":
		if byName[fixed] != "" {
			return []domain{{fixed, byName[fixed]}}
		}
		return []domain{{fixed, fixed}}
	case len(all) > 0:
		return all
	}
	return []domain{{}}
}
