package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Groups are the node groups of a cluster: the MachineDeployments whose Machines have Nodes there, whoever scales them.
type Groups struct {
	// Types are what a node class would offer that selects all MachineDeployments of the Cluster. A type that a node has is
	// offered, at its price, where the node is, if only as unavailable.
	Types []*catalog.Type
	// Nodes are the Nodes of the groups, by name.
	Nodes map[string]GroupNode
	// Notes say which MachineDeployments cannot be launched from, and why.
	Notes []string
}

// GroupNode is what a MachineDeployment says of one of its Nodes.
type GroupNode struct {
	// Deployment is the MachineDeployment, namespace/name.
	Deployment               string
	Type, Zone, CapacityType string
	// Priced: its price is known.
	Priced bool
}

// ReadGroups finds the groups that Nodes are of. Types are what node classes say of instance types. Nothing is written, and no
// right is used but to get and to list.
func ReadGroups(ctx context.Context, p *Provider, nodes []*corev1.Node, types []clusterapiv1alpha1.InstanceType) (*Groups, error) {
	g := &Groups{Nodes: map[string]GroupNode{}}
	machines, err := p.mgmt.list(ctx, kindMachine, client.HasLabels{deploymentNameLabel})
	if err != nil {
		return nil, err
	}
	of := machinesOf(nodes, machines)
	if len(of) == 0 {
		return g, nil
	}
	cluster, err := clusterOf(of)
	if err != nil {
		return nil, err
	}
	class := &clusterapiv1alpha1.ClusterAPINodeClass{Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{
		ScalableResourceSelector: &metav1.LabelSelector{}, ClusterRef: cluster, Types: types,
	}}
	f, err := p.find(ctx, class)
	if err != nil {
		return nil, err
	}
	byKey := map[client.ObjectKey]*candidate{}
	for i := range f.candidates {
		byKey[f.candidates[i].key] = &f.candidates[i]
	}
	for _, n := range nodes {
		if o := of[n.Name]; o != nil && byKey[deploymentOf(o)] != nil {
			d := byKey[deploymentOf(o)]
			class.Status.Learned = append(class.Status.Learned, clusterapiv1alpha1.LearnedCapacity{
				Namespace: d.key.Namespace, MachineDeployment: d.key.Name, Template: d.deployment.infrastructure.String(), Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable,
			})
		}
	}
	l := newListing(f) // it sorts the candidates
	for i := range f.candidates {
		byKey[f.candidates[i].key] = &f.candidates[i]
	}
	g.Types, g.Notes = l.types, l.notes
	for _, n := range nodes {
		if o := of[n.Name]; o != nil && byKey[deploymentOf(o)] != nil {
			g.add(f, byKey[deploymentOf(o)], n, o)
		}
	}
	return g, nil
}

// machinesOf returns the Machine of each Node that has one, by the Node's name.
func machinesOf(nodes []*corev1.Node, machines []unstructured.Unstructured) map[string]*unstructured.Unstructured {
	byNode := map[string][]*unstructured.Unstructured{}
	for i := range machines {
		name := fields(machines[i].Object).text("status", "nodeRef", "name")
		byNode[name] = append(byNode[name], &machines[i])
	}
	of := map[string]*unstructured.Unstructured{}
	for _, n := range nodes {
		for _, o := range byNode[n.Name] { // other Clusters may have Nodes of that name
			if n.Spec.ProviderID != "" && fields(o.Object).text("spec", "providerID") == n.Spec.ProviderID {
				of[n.Name] = o
			}
		}
	}
	return of
}

// deploymentOf returns the MachineDeployment of a Machine that has one.
func deploymentOf(object *unstructured.Unstructured) client.ObjectKey {
	return client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[deploymentNameLabel]}
}

// clusterOf returns the Cluster of Machines.
func clusterOf(of map[string]*unstructured.Unstructured) (*clusterapiv1alpha1.ClusterReference, error) {
	names := map[string]clusterapiv1alpha1.ClusterReference{}
	for _, o := range of {
		ref := clusterapiv1alpha1.ClusterReference{Namespace: o.GetNamespace(), Name: fields(o.Object).text("spec", "clusterName")}
		names[ref.Namespace+"/"+ref.Name] = ref
	}
	all := sortedKeys(names)
	if len(all) > 1 {
		return nil, fmt.Errorf("the Nodes are of Machines of the Clusters %s: set --cluster-api-namespace to that of one", strings.Join(all, ", "))
	}
	ref := names[all[0]]
	return &ref, nil
}

// add adds a Node of a MachineDeployment.
func (g *Groups) add(f *found, c *candidate, n *corev1.Node, object *unstructured.Unstructured) {
	node := GroupNode{Deployment: c.key.String(), Zone: n.Labels[label.Zone]}
	name, typeErr := c.instanceType()
	kind, kindErr := c.capacityType()
	dollars, priced, priceErr := c.price(name, f.class, f.prices)
	t := g.typeNamed(name)
	if t == nil || errors.Join(typeErr, kindErr, priceErr) != nil { // a note says why
		g.Nodes[n.Name] = node
		return
	}
	machine := fields(object.Object)
	domain := machine.text("status", "failureDomain")
	if domain == "" {
		domain = machine.text("spec", "failureDomain")
	}
	domains := c.domains(f.cluster)
	for _, d := range domains {
		if node.Zone == "" && (d.name == domain || len(domains) == 1) {
			node.Zone = d.zone
		}
	}
	node.Type, node.CapacityType, node.Priced = name, kind, priced
	g.Nodes[n.Name] = node
	isThere := slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.Zone == node.Zone && o.CapacityType == kind })
	if priced && !isThere {
		t.Offerings = append(t.Offerings, catalog.Offering{Zone: node.Zone, CapacityType: kind, PriceHourly: dollars, Priced: true})
	}
}

// typeNamed returns a type; nil: there is none.
func (g *Groups) typeNamed(name string) *catalog.Type {
	i := slices.IndexFunc(g.Types, func(t *catalog.Type) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return g.Types[i]
}
