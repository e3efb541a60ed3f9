package clusterapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/testkit/capi"
)

// The groups of Cluster API and of two of its providers.
const (
	coreGroup, infraGroup, bootGroup = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"
	finalizer                        = "machine.cluster.x-k8s.io"
)

// definitions returns the kinds of a management cluster that serves versions of Cluster API.
func definitions(versions ...string) (all []*apiextensionsv1.CustomResourceDefinition) {
	for kind, plural := range map[string]string{"Cluster": "clusters", "Machine": "machines", "MachineDeployment": "machinedeployments"} {
		d := capi.Definition(coreGroup, kind, plural, versions...)
		for i := range d.Spec.Versions {
			if kind == "MachineDeployment" {
				d.Spec.Versions[i].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}
			}
		}
		all = append(all, d)
	}
	for kind, plural := range map[string]string{"TestMachine": "testmachines", "TestMachineTemplate": "testmachinetemplates"} {
		all = append(all, capi.Definition(infraGroup, kind, plural, "v1beta1"))
	}
	for kind, plural := range map[string]string{"KubeadmConfig": "kubeadmconfigs", "KubeadmConfigTemplate": "kubeadmconfigtemplates"} {
		all = append(all, capi.Definition(bootGroup, kind, plural, versions...))
	}
	return all
}

// object reads an object from YAML.
func object(t testing.TB, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// fakeCAPI does what Cluster API's controllers and an infrastructure provider do with Machines, and what
// kubeadm and kubelet do with what they make. The infrastructure template says how: spec.delaySeconds until
// there is a provider ID, spec.shortage for none ever, spec.cpus and spec.memory of the node.
type fakeCAPI struct {
	t      *testing.T
	client client.Client
	// nodes is the cluster that has the Nodes; nil: the same.
	nodes   client.Client
	version string
}

// run works until the test ends.
func (f *fakeCAPI) run() {
	if f.nodes == nil {
		f.nodes = f.client
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			f.reconcileAll(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
}

func (f *fakeCAPI) reconcileAll(ctx context.Context) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: coreGroup, Version: f.version, Kind: "MachineList"})
	if err := f.client.List(ctx, all); err != nil {
		return // the next round will do
	}
	for i := range all.Items {
		_ = f.reconcile(ctx, &all.Items[i]) // so it will of a conflict
	}
}

func (f *fakeCAPI) reconcile(ctx context.Context, m *unstructured.Unstructured) error {
	if m.GetDeletionTimestamp() != nil {
		return f.finalize(ctx, m)
	}
	if !slices.Contains(m.GetFinalizers(), finalizer) {
		m.SetFinalizers(append(m.GetFinalizers(), finalizer))
		return f.client.Update(ctx, m)
	}
	infra, err := f.get(ctx, m, "spec", "infrastructureRef")
	if err != nil {
		return err
	}
	config, err := f.get(ctx, m, "spec", "bootstrap", "configRef")
	if err != nil {
		return err
	}
	id, _, _ := unstructured.NestedString(infra.Object, "spec", "providerID")
	if id == "" {
		return f.provision(ctx, m, infra)
	}
	if own, _, _ := unstructured.NestedString(m.Object, "spec", "providerID"); own == "" {
		_ = unstructured.SetNestedField(m.Object, id, "spec", "providerID")
		return f.client.Update(ctx, m)
	}
	return f.join(ctx, m, infra, config, id)
}

// provision gives an infrastructure object its provider ID, if it is to have one. If not, it says so, and
// the condition is copied to the Machine.
func (f *fakeCAPI) provision(ctx context.Context, m, infra *unstructured.Unstructured) error {
	if short, _, _ := unstructured.NestedBool(infra.Object, "spec", "shortage"); short {
		for o, kind := range map[*unstructured.Unstructured]string{infra: "Ready", m: "InfrastructureReady"} {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{
				"type": kind, "status": "False", "reason": "InsufficientCapacity", "message": "no host is left", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}}, "status", "conditions")
			if err := f.client.Status().Update(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
	delay, _, _ := unstructured.NestedInt64(infra.Object, "spec", "delaySeconds")
	if time.Since(infra.GetCreationTimestamp().Time) < time.Duration(delay)*time.Second {
		return nil
	}
	_ = unstructured.SetNestedField(infra.Object, "test:///"+infra.GetName(), "spec", "providerID")
	return f.client.Update(ctx, infra)
}

// join makes the Node of a Machine.
func (f *fakeCAPI) join(ctx context.Context, m, infra, config *unstructured.Unstructured, id string) error {
	if name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name"); name != "" {
		return nil
	}
	labels, taints := capi.Registration(config)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.GetName(), Labels: labels, Annotations: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: id, Taints: taints}}
	cpus, _, _ := unstructured.NestedInt64(infra.Object, "spec", "cpus")
	memory, _, _ := unstructured.NestedString(infra.Object, "spec", "memory")
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110"),
	}
	node.Status.Allocatable = node.Status.Capacity
	if err := f.nodes.Create(ctx, node); err != nil {
		return err
	}
	_ = unstructured.SetNestedField(m.Object, node.Name, "status", "nodeRef", "name")
	return f.client.Status().Update(ctx, m)
}

// finalize ends what belongs to a Machine, and the Machine, unless a hook holds it.
func (f *fakeCAPI) finalize(ctx context.Context, m *unstructured.Unstructured) error {
	for key := range m.GetAnnotations() {
		if strings.HasPrefix(key, "pre-drain.delete.hook.machine.cluster.x-k8s.io/") {
			return nil
		}
	}
	for _, path := range [][]string{{"spec", "infrastructureRef"}, {"spec", "bootstrap", "configRef"}} {
		if o, err := f.get(ctx, m, path...); err == nil {
			if err := f.client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				return err
			}
		} else if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if err := f.nodes.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.GetName()}}); client.IgnoreNotFound(err) != nil {
		return err
	}
	m.SetFinalizers(nil)
	return f.client.Update(ctx, m)
}

// get reads what a Machine refers to.
func (f *fakeCAPI) get(ctx context.Context, m *unstructured.Unstructured, path ...string) (*unstructured.Unstructured, error) {
	ref, _, _ := unstructured.NestedStringMap(m.Object, path...)
	gv, _ := schema.ParseGroupVersion(ref["apiVersion"])
	mapping, err := f.client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref["apiGroup"] + gv.Group, Kind: ref["kind"]})
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	return o, f.client.Get(ctx, client.ObjectKey{Namespace: m.GetNamespace(), Name: ref["name"]}, o)
}
