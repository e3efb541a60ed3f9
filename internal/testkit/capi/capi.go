package capi

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// Start installs Cluster API into a dev cluster and runs its controllers until the test ends. The test is skipped
// where testkit.Binary skips it.
func Start(t testing.TB, dev *testkit.Cluster, c client.Client) *Cluster {
	t.Helper()
	m := &Cluster{t: t, client: c, programs: testkit.Binary(t, "capi"), config: dev.Kubeconfig, managers: map[string]*manager{}}
	all, err := definitions(m.programs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(dev.Config, envtest.CRDInstallOptions{CRDs: all}); err != nil {
		t.Fatal(err)
	}
	for _, program := range Programs() {
		m.Run(program)
	}
	m.create()
	m.awaitConnection()
	return m
}

// awaitConnection returns when Cluster API has connected to the cluster: before, it does nothing about Machines, and
// asks about each of them again ever later.
func (m *Cluster) awaitConnection() {
	m.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: CoreGroup, Version: "v1beta2", Kind: "Cluster"})
	testkit.Eventually(m.t, connectMost, func() error {
		if err := m.client.Get(m.t.Context(), client.ObjectKey{Namespace: Namespace, Name: Name}, o); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range all {
			if c, ok := c.(map[string]any); ok && c["type"] == "RemoteConnectionProbe" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("Cluster API has not connected to the cluster: %v", all)
	})
}

// create makes a Cluster whose control plane is the dev cluster, and the MachineDeployments.
func (m *Cluster) create() {
	m.t.Helper()
	kubeconfig, err := os.ReadFile(m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	for name, value := range map[string][]byte{Name + "-kubeconfig": kubeconfig, "data": []byte("#!/bin/sh")} {
		m.Add(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{clusterNameLabel: Name}},
			Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": value},
		})
	}
	// An annotation, since the Dev provider 1.14.2 panics without one.
	m.Add(m.Object("apiVersion: %s/v1beta2\nkind: DevCluster\nmetadata: {name: %s, annotations: {a: b}}\nspec: {backend: {inMemory: {}}}", InfraGroup, Name))
	m.Add(m.Object("apiVersion: %s/v1beta1\nkind: TestControlPlane\nmetadata: {name: %s}\nspec: {version: %s}", controlPlaneGroup, Name, kubernetesVersion))
	m.Add(m.Object("apiVersion: %[1]s/v1beta2\nkind: Cluster\nmetadata: {name: %[3]s}\nspec: {infrastructureRef: {apiGroup: %[2]s, kind: DevCluster, name: %[3]s}, controlPlaneRef: {apiGroup: %[4]s, kind: TestControlPlane, name: %[3]s}}", CoreGroup, InfraGroup, Name, controlPlaneGroup))
	m.Add(m.Object("apiVersion: %s/v1beta2\nkind: DevMachineTemplate\nmetadata: {name: %s}\nspec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 2s}}, node: {provisioning: {startupDuration: 1s}}}}}}}", InfraGroup, Metal))
	m.Add(m.Object("apiVersion: %s/v1beta1\nkind: TestMachineTemplate\nmetadata: {name: %s}\nspec: {template: {spec: {}}}", InfraGroup, Short))
	plane := &unstructured.Unstructured{}
	plane.SetGroupVersionKind(schema.GroupVersionKind{Group: controlPlaneGroup, Version: "v1beta1", Kind: "TestControlPlane"})
	if err := m.client.Get(m.t.Context(), client.ObjectKey{Namespace: Namespace, Name: Name}, plane); err != nil {
		m.t.Fatal(err)
	}
	plane.Object["status"] = map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true, "version": kubernetesVersion}
	if err := m.client.Status().Update(m.t.Context(), plane); err != nil {
		m.t.Fatal(err)
	}
	m.AddDeployment(Deployment{Name: Metal, Kind: "DevMachineTemplate"})
	m.AddDeployment(Deployment{Name: Alloy, Kind: "DevMachineTemplate", Template: Metal})
	m.AddDeployment(Deployment{Name: Short, Kind: "TestMachineTemplate"})
}

// Deployment is a MachineDeployment without replicas.
type Deployment struct {
	Name string
	// Kind and Template are those of its infrastructure template; no Template: that of its name.
	Kind, Template string
	// Bootstrap is the name of a KubeadmConfigTemplate; empty: the bootstrap data is in a Secret.
	Bootstrap string
	// Labels are its own; nil: the one that is looked for by a class without a selector.
	Labels map[string]string
	// Annotations are its own; nil: those that say what its nodes have, CPUs and Memory.
	Annotations map[string]string
}

// AddDeployment creates a MachineDeployment. The fields of rollout and the label of the deployment are those that
// Cluster API's webhooks set.
func (m *Cluster) AddDeployment(d Deployment) {
	m.t.Helper()
	bootstrap := "dataSecretName: data"
	if d.Bootstrap != "" {
		bootstrap = fmt.Sprintf("configRef: {apiGroup: %s, kind: KubeadmConfigTemplate, name: %s}", bootstrapGroup, d.Bootstrap)
	}
	o := m.Object(`apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: %[1]s}
spec:
  clusterName: %[3]s
  replicas: 0
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: %[1]s}}
  template:
    metadata: {labels: {cluster.x-k8s.io/deployment-name: %[1]s, cluster.x-k8s.io/cluster-name: %[3]s}}
    spec:
      clusterName: %[3]s
      version: %[4]s
      bootstrap: {%[5]s}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %[2]s, name: %[6]s}
`, d.Name, d.Kind, Name, kubernetesVersion, bootstrap, cmp.Or(d.Template, d.Name))
	o.SetLabels(d.Labels)
	if d.Labels == nil {
		o.SetLabels(map[string]string{"node.cluster.x-k8s.io/karpenter-member": ""})
	}
	o.SetAnnotations(d.Annotations)
	if d.Annotations == nil {
		o.SetAnnotations(map[string]string{capacityPrefix + "cpu": fmt.Sprint(CPUs), capacityPrefix + "memory": Memory})
	}
	m.Add(o)
}

// Object reads an object of Namespace from YAML.
func (m *Cluster) Object(format string, args ...any) *unstructured.Unstructured {
	m.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &o.Object); err != nil {
		m.t.Fatal(err)
	}
	o.SetNamespace(Namespace)
	return o
}

// Add creates an object.
func (m *Cluster) Add(o client.Object) {
	m.t.Helper()
	if err := m.client.Create(m.t.Context(), o); err != nil {
		m.t.Fatalf("create %s: %v", o.GetName(), err)
	}
}
