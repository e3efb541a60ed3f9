// Package rack is a provider for tests that has a kind of node class of its own, the one of examples/provider-node. Its
// instances are Nodes for which KWOK plays the kubelet, beside those of the provider kwok. A process has it as a
// provider in Go, or behind the protocol (internal/cloud/remote/serve).
package rack

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// Group is that of the node classes.
	Group = "example.dovetail.sh"
	// Kind is that of the node classes.
	Kind = "ExampleNodeClass"
	// Row is a label that only nodes of this provider have.
	Row = Group + "/row"

	idPrefix           = "rack://"
	tokenKey, claimKey = Group + "/token", Group + "/claim"
)

// Provider is a cloud.Provider. All it knows is in the API server.
type Provider struct{ client client.Client }

// New returns a provider whose Nodes and classes are those of a cluster.
func New(c client.Client) *Provider { return &Provider{c} }

// Class returns the reference to a class.
func Class(name string) cloud.ClassRef { return cloud.ClassRef{Group: Group, Kind: Kind, Name: name} }

// NewClass returns a class; it is ready, as the definition has it, unless its spec says otherwise.
func NewClass(name string, isUnready bool) *unstructured.Unstructured {
	class := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"unready": isUnready}}}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: Group, Version: "v1", Kind: Kind})
	class.SetName(name)
	return class
}

// Name returns "rack".
func (*Provider) Name() string { return "rack" }

// ClassKinds returns ExampleNodeClass.
func (*Provider) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: Group, Version: "v1", Kind: Kind}}
}

// Vocabulary returns the labels of the instance types.
func (*Provider) Vocabulary() cloud.Vocabulary {
	return cloud.Vocabulary{WellKnown: []string{Row, label.InstanceType, label.Zone, label.CapacityType, corev1.LabelArchStable, corev1.LabelOSStable}, RestrictedDomains: []string{Group}}
}

// Types returns types of 2, 4 and 8 cpus in two zones.
func (p *Provider) Types(ctx context.Context, ref cloud.ClassRef) ([]*catalog.Type, error) {
	if _, err := p.class(ctx, ref); err != nil {
		return nil, err
	}
	var types []*catalog.Type
	for _, cpus := range []int64{2, 4, 8} {
		name := fmt.Sprintf("rack-%d", cpus)
		t := &catalog.Type{
			Name: name, Capacity: quantity.List{quantity.CPU: cpus * 1000, quantity.Memory: cpus << 32, quantity.Pods: 110},
			Requirements: label.Requirements{
				label.InstanceType: label.In(name), label.Zone: label.In("hall-1", "hall-2"), label.CapacityType: label.In(label.OnDemand),
				corev1.LabelOSStable: label.In("linux"), corev1.LabelArchStable: label.In("amd64"), Row: label.In("north"),
			},
		}
		for _, zone := range []string{"hall-1", "hall-2"} {
			t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, CapacityType: label.OnDemand, Available: true, Priced: true, PriceHourly: float64(cpus) / 50})
		}
		types = append(types, t)
	}
	return types, nil
}

func (p *Provider) class(ctx context.Context, ref cloud.ClassRef) (*unstructured.Unstructured, error) {
	class := NewClass(ref.Name, false)
	err := p.client.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	return class, err
}

// Launch makes a Node of the first choice for each request.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	for i := range requests {
		results[i].Instance, results[i].Err = p.launch(ctx, &requests[i])
	}
	return results
}

func (p *Provider) launch(ctx context.Context, r *cloud.LaunchRequest) (cloud.Instance, error) {
	class, err := p.class(ctx, r.Class)
	if err != nil {
		return cloud.Instance{}, &cloud.Failure{Kind: cloud.NoCapacity, Message: err.Error()}
	}
	if isUnready, _, _ := unstructured.NestedBool(class.Object, "spec", "unready"); isUnready {
		return cloud.Instance{}, &cloud.Failure{Kind: cloud.ClassNotReady, Message: "the class is not ready"}
	}
	node := newNode(r)
	if err := p.client.Create(ctx, node); apierrors.IsAlreadyExists(err) {
		err = p.client.Get(ctx, client.ObjectKeyFromObject(node), node)
		return instanceOf(node), err
	} else if err != nil {
		return cloud.Instance{}, err
	}
	return instanceOf(node), nil
}

// newNode returns the Node of a request: the same for the same token.
func newNode(r *cloud.LaunchRequest) *corev1.Node {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Token)) // never fails
	name, choice := fmt.Sprintf("rack-%x", h.Sum64()), r.Choices[0]
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", tokenKey: r.Token, claimKey: r.Claim}},
		Spec:       corev1.NodeSpec{ProviderID: idPrefix + name},
		Status:     corev1.NodeStatus{Capacity: translate.ResourceList(choice.Type.Capacity), Allocatable: translate.ResourceList(choice.Type.Allocatable())},
	}
	maps.Copy(node.Annotations, r.Annotations)
	maps.Copy(node.Labels, r.Labels)
	for _, requirements := range []label.Requirements{r.Requirements, choice.Type.Requirements, choice.Offering.Requirements()} {
		for key, requirement := range requirements {
			if value, ok := requirement.Only(); ok {
				node.Labels[key] = value
			}
		}
	}
	node.Labels["kwok.x-k8s.io/node"], node.Labels["kwok-partition"], node.Labels[corev1.LabelHostname] = "fake", "a", name
	for _, t := range r.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return node
}

// instanceOf returns the instance that a Node is.
func instanceOf(node *corev1.Node) cloud.Instance {
	labels := map[string]string{}
	for _, key := range New(nil).Vocabulary().WellKnown {
		labels[key] = node.Labels[key]
	}
	return cloud.Instance{
		ID: node.Spec.ProviderID, Token: node.Annotations[tokenKey], Claim: node.Annotations[claimKey], Labels: labels,
		Capacity: translate.Quantities(node.Status.Capacity), Allocatable: translate.Quantities(node.Status.Allocatable),
		Created: node.CreationTimestamp.Time, Terminating: node.DeletionTimestamp != nil,
	}
}

// find returns the Node of an instance. ErrNotFound: there is none.
func (p *Provider) find(ctx context.Context, id string) (*corev1.Node, error) {
	node := &corev1.Node{}
	name, isOurs := strings.CutPrefix(id, idPrefix)
	if !isOurs {
		return nil, cloud.ErrNotFound
	}
	err := p.client.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	return node, err
}

// Terminate deletes the Node. The instance is gone at once.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	node, err := p.find(ctx, id)
	if err == nil {
		err = p.client.Delete(ctx, node)
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = cloud.ErrNotFound
	}
	return err
}

// Get returns an instance.
func (p *Provider) Get(ctx context.Context, id string) (cloud.Instance, error) {
	node, err := p.find(ctx, id)
	if err == nil && node.DeletionTimestamp != nil {
		err = cloud.ErrNotFound
	}
	if err != nil {
		return cloud.Instance{}, err
	}
	return instanceOf(node), nil
}

// List returns all instances.
func (p *Provider) List(ctx context.Context) ([]cloud.Instance, error) {
	var nodes corev1.NodeList
	if err := p.client.List(ctx, &nodes); err != nil {
		return nil, err
	}
	var all []cloud.Instance
	for i := range nodes.Items {
		if strings.HasPrefix(nodes.Items[i].Spec.ProviderID, idPrefix) {
			all = append(all, instanceOf(&nodes.Items[i]))
		}
	}
	return all, nil
}
