package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

// kube is what consolidation reads of the API server, from memory and without copies, so
// that reading costs Karpenter next to nothing. What it doesn't read panics.
type kube struct {
	client.Client
	pools   []*karpenterv1.NodePool
	budgets []policyv1.PodDisruptionBudget
	daemons []appsv1.DaemonSet
	nodes   map[string]*corev1.Node
	pods    map[string][]*corev1.Pod // by node
}

// Get finds nodes; nothing else is there.
func (k *kube) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if n, ok := into.(*corev1.Node); ok && k.nodes[key.Name] != nil {
		*n = *k.nodes[key.Name]
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List lists pods, by node or by label, pools, daemon sets and disruption budgets; nothing else is there.
func (k *kube) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var opts client.ListOptions
	opts.ApplyOptions(options)
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items = k.list(&opts)
	case *karpenterv1.NodePoolList:
		for _, p := range k.pools {
			list.Items = append(list.Items, *p)
		}
	case *appsv1.DaemonSetList:
		list.Items = k.daemons
	case *policyv1.PodDisruptionBudgetList:
		list.Items = k.budgets
	default:
		return fmt.Errorf("list %T: not foreseen", list)
	}
	return nil
}

func (k *kube) list(opts *client.ListOptions) []corev1.Pod {
	var out []corev1.Pod
	add := func(pods []*corev1.Pod) {
		for _, p := range pods {
			if opts.LabelSelector == nil || opts.LabelSelector.Matches(labels.Set(p.Labels)) {
				out = append(out, *p)
			}
		}
	}
	if opts.FieldSelector != nil {
		if node, ok := opts.FieldSelector.RequiresExactMatch("spec.nodeName"); ok {
			add(k.pods[node])
			return out
		}
	}
	for _, pods := range k.pods {
		add(pods)
	}
	return out
}

// move binds a pod to another node.
func (k *kube) move(p *corev1.Pod, to string) {
	k.pods[p.Spec.NodeName] = slices.DeleteFunc(k.pods[p.Spec.NodeName], func(o *corev1.Pod) bool { return o == p })
	p.Spec.NodeName = to
	k.pods[to] = append(k.pods[to], p)
}

// cloud is a provider that sells what the scenario does; it is asked for nothing else.
type cloud struct {
	cloudprovider.CloudProvider
	types map[string][]*cloudprovider.InstanceType
}

// GetInstanceTypes returns what the pool can launch.
func (c cloud) GetInstanceTypes(_ context.Context, p *karpenterv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types[p.Name], nil
}

// GetSupportedNodeClasses returns the kind that nodePool names.
func (c cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}

// Name is the provider's.
func (c cloud) Name() string { return "bench" }
