package capi

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const joinEvery = 100 * time.Millisecond

// List returns the objects of a kind of v1beta2 that are in Namespace.
func (m *Cluster) List(ctx context.Context, group, kind string) ([]unstructured.Unstructured, error) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: kind + "List"})
	err := m.client.List(ctx, all, client.InNamespace(Namespace))
	return all.Items, err
}

// RunKubelets has every virtual machine of the Dev provider join as a Node, until the test ends. Its kubelet has the
// taints and labels of its KubeadmConfig. Without one it has the taints that a template of a user has: one until
// Dovetail has registered the Node, and the one that kubeadm's templates have until Cluster API has copied the Machine's
// labels. RunKubelets also does what kubeadm's controller does, and has every TestMachine say that no host is left.
func (m *Cluster) RunKubelets() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(joinEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			m.joinAll(ctx)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	m.t.Cleanup(func() { cancel(); <-done })
}

func (m *Cluster) joinAll(ctx context.Context) {
	m.say(ctx, schema.GroupVersionKind{Group: bootstrapGroup, Version: "v1beta2", Kind: "KubeadmConfig"}, "dataSecretName", map[string]any{"dataSecretName": "data", "initialization": map[string]any{"dataSecretCreated": true}})
	m.say(ctx, schema.GroupVersionKind{Group: InfraGroup, Version: "v1beta1", Kind: "TestMachine"}, "conditions", map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "InsufficientCapacity", "message": "no host is left", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}})
	all, err := m.List(ctx, InfraGroup, "DevMachine")
	if err != nil {
		return // the next round will do
	}
	var nodes corev1.NodeList
	if err := m.client.List(ctx, &nodes); err != nil {
		return
	}
	joined := map[string]bool{}
	for i := range nodes.Items {
		joined[nodes.Items[i].Name] = true
	}
	for i := range all {
		id, _, _ := unstructured.NestedString(all[i].Object, "spec", "providerID")
		provisioned, _, _ := unstructured.NestedBool(all[i].Object, "status", "initialization", "provisioned")
		// A kubelet registers its Node once: it does not do it again when somebody deletes the Node.
		if name := all[i].GetName(); id != "" && provisioned && all[i].GetDeletionTimestamp() == nil && !joined[name] && !m.hadNode(ctx, name) {
			m.join(ctx, &all[i], id)
		}
	}
}

// say gives the objects of a kind a status, unless theirs has a field of it.
func (m *Cluster) say(ctx context.Context, kind schema.GroupVersionKind, field string, status map[string]any) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := m.client.List(ctx, all, client.InNamespace(Namespace)); err != nil {
		return // the next round will do
	}
	for i := range all.Items {
		if _, says, _ := unstructured.NestedFieldNoCopy(all.Items[i].Object, "status", field); says {
			continue
		}
		all.Items[i].Object["status"] = status
		_ = m.client.Status().Update(ctx, &all.Items[i]) // so it will of a conflict
	}
}

// hadNode reports whether Cluster API has seen the Node of a Machine.
func (m *Cluster) hadNode(ctx context.Context, name string) bool {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(schema.GroupVersionKind{Group: CoreGroup, Version: "v1beta2", Kind: "Machine"})
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, machine); err != nil {
		return true
	}
	node, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", "name")
	return node != "" || machine.GetDeletionTimestamp() != nil
}

// join makes the Node of a virtual machine. If that has ended meanwhile, so has its kubelet.
func (m *Cluster) join(ctx context.Context, machine *unstructured.Unstructured, id string) {
	name := machine.GetName()
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(schema.GroupVersionKind{Group: bootstrapGroup, Version: "v1beta2", Kind: "KubeadmConfig"})
	err := m.client.Get(ctx, client.ObjectKeyFromObject(machine), config)
	if client.IgnoreNotFound(err) != nil {
		return // the next round will do
	}
	labels, taints := Registration(config)
	if err != nil {
		taints = []corev1.Taint{
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
			{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
		}
	}
	maps.Copy(labels, map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"})
	amounts := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(CPUs, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(Memory), corev1.ResourcePods: resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: id, Taints: taints},
		Status:     corev1.NodeStatus{Capacity: amounts, Allocatable: amounts},
	}
	if err := m.client.Create(ctx, node); err != nil {
		return
	}
	err = m.client.Get(ctx, client.ObjectKeyFromObject(machine), machine)
	if apierrors.IsNotFound(err) {
		_ = m.client.Delete(ctx, node) // whoever ended the machine has not seen it
	}
}

// Registration returns the labels and taints with which a kubelet registers its Node that a KubeadmConfig of either
// version is for.
func Registration(config *unstructured.Unstructured) (labels map[string]string, taints []corev1.Taint) {
	labels = map[string]string{}
	at := []string{"spec", "joinConfiguration", "nodeRegistration"}
	list, _, _ := unstructured.NestedSlice(config.Object, append(at, "taints")...)
	for _, entry := range list {
		taint := entry.(map[string]any)
		value, _ := taint["value"].(string)
		taints = append(taints, corev1.Taint{Key: taint["key"].(string), Value: value, Effect: corev1.TaintEffect(taint["effect"].(string))})
	}
	args, _, _ := unstructured.NestedStringMap(config.Object, append(at, "kubeletExtraArgs")...) // so has v1beta1
	text := args["node-labels"]
	list, _, _ = unstructured.NestedSlice(config.Object, append(at, "kubeletExtraArgs")...)
	for _, entry := range list {
		if arg := entry.(map[string]any); arg["name"] == "node-labels" {
			text = arg["value"].(string)
		}
	}
	for _, pair := range strings.Split(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels[key] = value
		}
	}
	return labels, taints
}
