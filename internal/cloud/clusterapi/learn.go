package clusterapi

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
)

const deploymentNameLabel = "cluster.x-k8s.io/deployment-name"

// learnedMax bounds what the status of a class has.
const learnedMax = 500

// learn returns what is known from nodes: what the class had, and what nodes of MachineDeployments show
// whose capacity nobody says.
func (p *Provider) learn(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass, lacking []*deployment) ([]clusterapiv1alpha1.LearnedCapacity, error) {
	known := slices.Clone(class.Status.Learned)
	for _, d := range lacking {
		node, err := p.mgmt.nodeOf(ctx, d, p.reader)
		if err != nil {
			return nil, err
		}
		if node == nil {
			continue
		}
		known = slices.DeleteFunc(known, func(l clusterapiv1alpha1.LearnedCapacity) bool {
			return l.Namespace == d.key.Namespace && l.MachineDeployment == d.key.Name
		})
		known = append(known, clusterapiv1alpha1.LearnedCapacity{
			Namespace: d.key.Namespace, MachineDeployment: d.key.Name, Template: d.infrastructure.String(),
			Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable,
		})
	}
	slices.SortFunc(known, func(a, b clusterapiv1alpha1.LearnedCapacity) int {
		return strings.Compare(a.Namespace+"/"+a.MachineDeployment, b.Namespace+"/"+b.MachineDeployment)
	})
	return known[:min(len(known), learnedMax)], nil
}

// nodeOf returns a Node that a MachineDeployment has made from the template that it refers to now; nil:
// there is none that reports what it has.
func (m *management) nodeOf(ctx context.Context, d *deployment, nodes client.Reader) (*corev1.Node, error) {
	all, err := m.list(ctx, kindMachine, client.InNamespace(d.key.Namespace), client.MatchingLabels{deploymentNameLabel: d.key.Name})
	if err != nil {
		return nil, err
	}
	for i := range all {
		name := fields(all[i].Object).text("status", "nodeRef", "name")
		if name == "" {
			continue
		}
		if isOld, err := m.isOfAnother(ctx, &all[i], d); err != nil || isOld {
			return nil, err
		}
		node := &corev1.Node{}
		err := nodes.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if amounts(node.Status.Capacity).whole() && amounts(node.Status.Allocatable).whole() {
			return node, nil
		}
	}
	return nil, nil
}

// isOfAnother reports whether a Machine was made from another template than the MachineDeployment
// refers to now.
func (m *management) isOfAnother(ctx context.Context, object *unstructured.Unstructured, d *deployment) (bool, error) {
	ref, ok := fields(object.Object).referenceAt("spec", "infrastructureRef")
	if !ok {
		return true, nil
	}
	infrastructure, err := m.getRef(ctx, ref, object.GetNamespace())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return infrastructure.GetAnnotations()[clonedFromName] != d.infrastructure.Name, nil
}
