package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// contractLabel says which version of a kind is of the contract v1beta2.
const contractLabel = "cluster.x-k8s.io/v1beta2"

// TestRealControllers runs Cluster API's own controllers and those of its Dev provider, whose virtual
// machines are in memory, on a dev cluster that is both management cluster and cluster. The Nodes are the
// test's: those of the Dev provider are in an API server of its own.
func TestRealControllers(t *testing.T) {
	t.Parallel()
	programs := testkit.Binary(t, "capi")
	devcluster := testkit.StartCluster(t)
	definitions, err := realDefinitions(programs)
	if err != nil {
		t.Fatal(err)
	}
	c := clientWith(t, devcluster, definitions...)
	for _, program := range []string{"core", "dev"} {
		startManager(t, filepath.Join(programs, program), devcluster.Kubeconfig)
	}
	realWorld(t, c, devcluster.Kubeconfig)
	p := newProvider(t, c)
	of := watched(t, p)

	r := requestOf(t, p, "metal", 0)
	first := launch(t, p, r)
	if !first.Provisional {
		t.Errorf("launched %+v, want a provisional ID", first)
	}
	instance := settled(t, p, first.ID)
	awaitNotice(t, of, first.ID, cloud.LaunchChanged)
	if !strings.HasPrefix(instance.ID, "in-memory://") {
		t.Errorf("the provider ID is %s, want one of the Dev provider", instance.ID)
	}
	if again := launch(t, newProvider(t, c), r); again.ID != instance.ID {
		t.Errorf("launched again after a crash: %s, want %s", again.ID, instance.ID)
	}
	createAll(t, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Claim}, Spec: corev1.NodeSpec{ProviderID: instance.ID}})
	testkit.Eventually(t, 3*time.Minute, func() error {
		if name, _, _ := unstructured.NestedString(machine(t, c, r.Claim).Object, "status", "nodeRef", "name"); name != r.Claim {
			return fmt.Errorf("the Machine has the Node %q", name)
		}
		return nil
	})
	realDrift(t, c, p, instance)
	realDeletion(t, c, p, of, r, instance)
	realFailure(t, c, p, of)
	realReplicas(t, c, p)
}

// realDrift edits the MachineDeployment.
func realDrift(t *testing.T, c client.Client, p *clusterapi.Provider, instance cloud.Instance) {
	t.Helper()
	for version, want := range map[string]string{"v1.38.0": "VersionDrift", "v1.37.1": ""} {
		edit(t, c, coreGroup, "MachineDeployment", "metal", func(o *unstructured.Unstructured) { set(t, o, version, "spec", "template", "spec", "version") })
		if got, err := p.Drifted(t.Context(), ref("metal"), instance.ID); err != nil || got != want {
			t.Errorf("drifted with version %s: %q, %v; want %q", version, got, err, want)
		}
	}
}

// realDeletion has somebody else delete the Machine, and then us.
func realDeletion(t *testing.T, c client.Client, p *clusterapi.Provider, of func(string) []cloud.Notice, r cloud.LaunchRequest, instance cloud.Instance) {
	t.Helper()
	if err := c.Delete(t.Context(), machine(t, c, r.Claim)); err != nil {
		t.Fatal(err)
	}
	awaitNotice(t, of, instance.ID, cloud.MaintenanceScheduled)
	testkit.Eventually(t, patience, func() error { // until Cluster API says that it waits for the hook
		conditions, _, _ := unstructured.NestedSlice(machine(t, c, r.Claim).Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "WaitingForPreDrainHook") {
			return errors.New("Cluster API does not wait for the hook: " + text)
		}
		return nil
	})
	if got, err := p.Get(t.Context(), instance.ID); err != nil || got.Terminating {
		t.Errorf("while the hook holds: %+v, %v; want the instance", got, err)
	}
	gone(t, p, instance.ID)
	awaitNotice(t, of, instance.ID, cloud.Ended)
	if _, err := get(t, c, infraGroup, "v1beta2", "DevMachine", r.Claim); !apierrors.IsNotFound(err) {
		t.Errorf("the DevMachine: %v, want it gone", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: r.Claim}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node: %v, want it gone", err)
	}
}

// realFailure has an infrastructure object say that there is no capacity.
func realFailure(t *testing.T, c client.Client, p *clusterapi.Provider, of func(string) []cloud.Notice) {
	t.Helper()
	r := requestOf(t, p, "short", 0)
	instance := launch(t, p, r)
	testkit.Eventually(t, patience, func() error {
		o, err := get(t, c, infraGroup, "v1beta1", "TestMachine", r.Claim)
		if err != nil {
			return err
		}
		set(t, o, []any{map[string]any{"type": "Ready", "status": "False", "reason": "InsufficientCapacity", "message": "no host is left", "lastTransitionTime": "2026-01-01T00:00:00Z"}}, "status", "conditions")
		return c.Status().Update(t.Context(), o)
	})
	failed := awaitNotice(t, of, instance.ID, cloud.LaunchFailed)
	if failed.Failure == nil || failed.Failure.Kind != cloud.NoCapacity || !strings.Contains(failed.Failure.Message, "no host is left") {
		t.Errorf("the failure is %+v, want that of the infrastructure object", failed.Failure)
	}
	gone(t, p, instance.ID)
}

// realReplicas launches twenty instances and ends them.
func realReplicas(t *testing.T, c client.Client, p *clusterapi.Provider) {
	t.Helper()
	const n = 20
	var requests []cloud.LaunchRequest
	for i := range n {
		requests = append(requests, requestOf(t, p, "metal", 100+i))
	}
	ids := map[string]bool{}
	for _, result := range p.Launch(t.Context(), requests) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		ids[settled(t, p, result.Instance.ID).ID] = true
	}
	listed, err := p.List(t.Context())
	if err != nil || len(ids) != n || len(listed) != n {
		t.Errorf("%d provider IDs, %d instances are listed, %v; want %d", len(ids), len(listed), err, n)
	}
	if md, err := get(t, c, coreGroup, "v1beta2", "MachineDeployment", "metal"); err != nil || fmt.Sprint(md.Object["spec"].(map[string]any)["replicas"]) != "0" {
		t.Errorf("the MachineDeployment: %v, %v; want its replicas as they were", md.Object["spec"], err)
	}
	for id := range ids {
		gone(t, p, id)
	}
}

func requestOf(t *testing.T, p *clusterapi.Provider, typ string, n int) cloud.LaunchRequest {
	t.Helper()
	types, err := p.Types(t.Context(), ref("metal"))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("real-%s-%d", typ, n)
	r := cloud.LaunchRequest{Token: "uid-of-" + name, Claim: name, Class: ref("metal")}
	for _, choice := range catalog.Choices(types, nil, quantity.List{quantity.CPU: 100}) {
		if choice.Type.Name == typ {
			r.Choices = append(r.Choices, choice)
		}
	}
	if len(r.Choices) == 0 {
		t.Fatalf("no choice of type %s in %+v", typ, types)
	}
	return r
}

// realDefinitions returns the definitions of Cluster API and its Dev provider, with the labels that their
// manifests add, and those of an infrastructure of the test's.
func realDefinitions(programs string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := filepath.Glob(filepath.Join(programs, "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: %w", programs, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, d); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		d.Labels = map[string]string{contractLabel: "v1beta2"}
		all = append(all, d)
	}
	for kind, plural := range map[string]string{"TestMachine": "testmachines", "TestMachineTemplate": "testmachinetemplates", "TestControlPlane": "testcontrolplanes"} {
		group := infraGroup
		if kind == "TestControlPlane" {
			group = "controlplane.cluster.x-k8s.io"
		}
		d := definition(group, kind, plural, "v1beta1")
		d.Labels = map[string]string{contractLabel: "v1beta1"}
		all = append(all, d)
	}
	return all, nil
}

// startManager runs a program of Cluster API until the test ends.
func startManager(t *testing.T, program, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "--kubeconfig="+kubeconfig, "--webhook-cert-dir="+dir, fmt.Sprintf("--webhook-port=%d", port),
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics", "--health-addr=127.0.0.1:0", "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields")
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if text, err := os.ReadFile(output.Name()); t.Failed() && err == nil {
			lines := strings.Split(string(text), "\n")
			t.Logf("the last lines of %s:\n%s", program, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
}

// realWorld makes a Cluster whose control plane is the dev cluster, and two MachineDeployments.
func realWorld(t *testing.T, c client.Client, kubeconfig string) {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	createAll(t, c,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "metal-kubeconfig", Namespace: "default", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "metal"}}, Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": text}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "metal"}}, Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("#!/bin/sh")}},
		// An annotation, since the Dev provider 1.14.2 panics without one.
		object(t, "apiVersion: %s/v1beta2\nkind: DevCluster\nmetadata: {name: metal, namespace: default, annotations: {a: b}}\nspec: {backend: {inMemory: {}}}", infraGroup),
		object(t, "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: TestControlPlane\nmetadata: {name: metal, namespace: default}\nspec: {version: v1.37.1}"),
		object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {infrastructureRef: {apiGroup: %s, kind: DevCluster, name: metal}, controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: TestControlPlane, name: metal}}", coreGroup, infraGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: DevMachineTemplate\nmetadata: {name: metal, namespace: default}\nspec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 2s}}, node: {provisioning: {startupDuration: 1s}}}}}}}", infraGroup),
		object(t, "apiVersion: %s/v1beta1\nkind: TestMachineTemplate\nmetadata: {name: short, namespace: default}\nspec: {template: {spec: {}}}", infraGroup),
		object(t, "apiVersion: karpenter.cluster.x-k8s.io/v1alpha1\nkind: ClusterAPINodeClass\nmetadata: {name: metal}\nspec: {}"))
	o, err := get(t, c, "controlplane.cluster.x-k8s.io", "v1beta1", "TestControlPlane", "metal")
	if err != nil {
		t.Fatal(err)
	}
	set(t, o, map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true, "version": "v1.37.1"}, "status")
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"metal": "DevMachineTemplate", "short": "TestMachineTemplate"} {
		createAll(t, c, object(t, `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: %[1]s
  namespace: default
  labels: {node.cluster.x-k8s.io/karpenter-member: ""}
  annotations: {capacity.cluster-autoscaler.kubernetes.io/cpu: "4", capacity.cluster-autoscaler.kubernetes.io/memory: 8Gi}
spec:
  clusterName: metal
  replicas: 0
  rollout: {strategy: {type: RollingUpdate}}
  selector: {matchLabels: {pool: %[1]s}}
  template:
    metadata: {labels: {pool: %[1]s, cluster.x-k8s.io/cluster-name: metal}}
    spec:
      clusterName: metal
      version: v1.37.1
      bootstrap: {dataSecretName: data}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: %[2]s, name: %[1]s}
`, name, kind))
	}
}
