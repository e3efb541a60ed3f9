package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/capi"
)

const drainHook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"

var capiKills = flag.Int("capi-kills", 4, "how often TestClusterAPI kills the controller or one of Cluster API's")

// TestClusterAPI has 100 pods come and go on nodes of Cluster API, whose own controllers run. At random moments the
// controller, Cluster API's or its Dev provider's are killed. In the end NodeClaims, Machines, virtual
// machines and Nodes are one to one. -crash-seed repeats a choice of moments, as far as that goes with real processes.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	t.Logf("-capi-kills=%d -crash-seed=%d", *capiKills, *crashSeed)
	f := newFleet(t)
	up := (*capiKills + 1) / 2
	f.grow(up)
	f.decidedOnce(capi.CPUs)
	f.overlaid()
	f.saved()
	f.held()
	f.shrink(*capiKills - up)
}

// fleet is a cluster with Cluster API in it, and a controller.
type fleet struct {
	*lives
	capi   *capi.Cluster
	rights string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	programs := testkit.Binary(t, "capi") // to be skipped before anything is started
	cluster := testkit.StartCluster(t)
	f := &fleet{lives: newLives(t, connect(t, cluster))}
	installDefinitions(t, f.client)
	f.rights = asInstalled(t, cluster, f.client, "providers")
	f.capi = capi.Start(t, cluster, f.client)
	f.capi.RunKubelets()
	for _, name := range []string{capi.Core, capi.Dev} {
		f.others[name] = func() { f.capi.Kill(name); f.capi.Run(name) }
	}
	f.instances = f.machines
	f.start = func() *process {
		return start(t, "controller", "--kubeconfig", f.rights, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0",
			"--cloud-provider", "clusterapi", "--cluster-api-namespace", capi.Namespace, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeOverlay=true")
	}
	t.Logf("Cluster API is of %s", programs)
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool := livesPool(karpenterv1.NodeClassReference{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: class.Name}, capi.Alloy, capi.Metal)
	for _, o := range []client.Object{class, pool, fleetPrice()} {
		if err := f.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	f.simulate(cluster.Kubeconfig)
	f.controller = f.start()
	testkit.Eventually(t, patience, func() error {
		var price karpenterv1alpha1.NodeOverlay
		err := f.client.Get(t.Context(), client.ObjectKeyFromObject(fleetPrice()), &price)
		if err == nil && !meta.IsStatusConditionTrue(price.Status.Conditions, karpenterv1alpha1.ConditionTypeValidationSucceeded) {
			err = fmt.Errorf("the NodeOverlay says %+v", price.Status.Conditions)
		}
		return errors.Join(err, poolReady(t.Context(), f.client))
	})
	f.stage("the pool is ready")
	return f
}

// simulate asks what would be launched: of manifests whose MachineDeployments are in the management cluster, and of the cluster,
// which has no pods yet and is its own management cluster.
func (f *fleet) simulate(kubeconfig string) {
	f.t.Helper()
	const manifests = `{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: default}}
---
{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [metal]}], nodeClassRef: {group: karpenter.cluster.x-k8s.io, kind: ClusterAPINodeClass, name: default}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 3}}}]}}
`
	file := filepath.Join(f.t.TempDir(), "manifests.yaml")
	noError(f.t, os.WriteFile(file, []byte(manifests), 0o600))
	said := expect(f.t, 0, "simulate", "-f", file, "--cluster-api-kubeconfig", kubeconfig, "--cluster-api-namespace", capi.Namespace)
	if want := "1 node would be launched for 1 pod"; !strings.Contains(said, want) || !strings.Contains(said, capi.Metal) {
		f.t.Errorf("simulate says\n%s\nwant that %s, of type %s", said, want, capi.Metal)
	}
	expect(f.t, 0, "simulate", "--live", "--kubeconfig", kubeconfig)
}

// fleetPrice is the only price that there is. Without it the type of the first name is launched.
func fleetPrice() *karpenterv1alpha1.NodeOverlay {
	return &karpenterv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "metal"}, Spec: karpenterv1alpha1.NodeOverlaySpec{
		Price:        new("0.25"),
		Requirements: []karpenterv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{capi.Metal}}},
	}}
}

// overlaid fails unless all nodes are of the type that has a price.
func (f *fleet) overlaid() {
	f.t.Helper()
	now := f.observe()
	for i := range now.claims {
		if got := now.claims[i].Labels[corev1.LabelInstanceTypeStable]; got != capi.Metal {
			f.t.Errorf("claim %s is of type %s, want %s, which has a price", now.claims[i].Name, got, capi.Metal)
		}
	}
}

// saved asks for what the nodes cost at the prices of a file, with the controller's rights.
func (f *fleet) saved() {
	f.t.Helper()
	prices := filepath.Join(f.t.TempDir(), "prices.yaml")
	noError(f.t, os.WriteFile(prices, []byte(capi.Metal+": 0.25\n"), 0o600))
	var report struct {
		Nodes int     `json:"nodes"`
		Now   float64 `json:"nowPerHour"`
		Least float64 `json:"leastPerHour"`
	}
	said := expect(f.t, 0, "savings", "--kubeconfig", f.rights, "--cluster-api-namespace", capi.Namespace, "--cluster-api-prices-file", prices, "--html=", "-o", "json")
	noError(f.t, json.Unmarshal([]byte(said), &report))
	want := 0.25 * float64(len(f.observe().nodes))
	if math.Abs(report.Now-want) > 1e-9 || report.Least <= 0 || report.Least > want {
		f.t.Errorf("savings says of the nodes %+v, want that they cost %v", report, want)
	}
}

// held deletes a NodeClaim that is held twice: by a PodDisruptionBudget of the pods on its node, and then by its Cluster, which
// is paused.
func (f *fleet) held() {
	f.t.Helper()
	t := f.t
	claim := f.observe().claims[0]
	node := claim.Status.NodeName
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	noError(t, f.client.Create(t.Context(), budget))
	noError(t, f.client.Delete(t.Context(), &claim))
	f.awaitEvent(node, "FailedDraining", "disruption budget")
	if at := f.machine(claim.Name).GetDeletionTimestamp(); at != nil {
		t.Errorf("the Machine is deleted, and its node is not drained")
	}
	pause := func(is bool) {
		t.Helper()
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: capi.CoreGroup, Version: "v1beta2", Kind: "Cluster"})
		o.SetNamespace(capi.Namespace)
		o.SetName(capi.Name)
		noError(t, f.client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, is))))
	}
	pause(true)
	noError(t, f.client.Delete(t.Context(), budget))
	f.awaitEvent(claim.Name, "FailedTermination", "Cluster spec.paused is set to true")
	noError(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(&claim), &claim))
	if !is(&claim, karpenterv1.ConditionTypeDrained) || f.machine(claim.Name).GetDeletionTimestamp() == nil {
		t.Errorf("the claim has %+v, want that it is drained, and that its Machine is deleted", claim.Status.Conditions)
	}
	pause(false)
	testkit.Eventually(t, livesPatience, func() error {
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(&claim), &claim); !apierrors.IsNotFound(err) {
			return fmt.Errorf("claim %s is there: %w", claim.Name, err)
		}
		return f.complete()
	})
	f.stage("a node that was held has gone")
}

// machine returns the Machine of a name.
func (f *fleet) machine(name string) *unstructured.Unstructured {
	f.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: capi.CoreGroup, Version: "v1beta2", Kind: "Machine"})
	noError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: capi.Namespace, Name: name}, o))
	return o
}

// awaitEvent waits for an event about an object.
func (f *fleet) awaitEvent(name, reason, text string) {
	f.t.Helper()
	testkit.Eventually(f.t, livesPatience, func() error {
		var all corev1.EventList
		if err := f.client.List(f.t.Context(), &all); err != nil {
			return err
		}
		var said []string
		for i := range all.Items {
			if e := &all.Items[i]; e.InvolvedObject.Name == name {
				said = append(said, e.Reason+": "+e.Message)
				if e.Reason == reason && strings.Contains(e.Message, text) {
					return nil
				}
			}
		}
		return fmt.Errorf("no event %s of %s has %q: %q", reason, name, text, said)
	})
}

// machines returns the names of Cluster API's Machines, by provider ID. There is a virtual machine for each, and no other.
func (f *fleet) machines() (map[string]string, error) {
	machines, err := f.capi.List(f.t.Context(), capi.CoreGroup, "Machine")
	virtual, errVirtual := f.capi.List(f.t.Context(), capi.InfraGroup, "DevMachine")
	if err := errors.Join(err, errVirtual); err != nil {
		return nil, err
	}
	names := byProviderID(machines)
	if got := byProviderID(virtual); len(names) != len(machines) || len(got) != len(virtual) || !maps.Equal(names, got) {
		return nil, fmt.Errorf("the Machines are %v, the virtual machines are %v", names, got)
	}
	return names, nil
}

func byProviderID(objects []unstructured.Unstructured) map[string]string {
	names := map[string]string{}
	for i := range objects {
		id, _, _ := unstructured.NestedString(objects[i].Object, "spec", "providerID")
		names[id] = objects[i].GetName()
	}
	return names
}

// hooked creates a Machine of Cluster API's that is of this cluster, with the hook that waits for the controller.
func hooked(t *testing.T, cluster *testkit.Cluster, c client.Client) *unstructured.Unstructured {
	t.Helper()
	if _, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{capi.Definition(capi.CoreGroup, "Machine", "machines", "v1beta2")}}); err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{}
	noError(t, c.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: capi.CoreGroup, Version: "v1beta2", Kind: "Machine"})
	o.SetNamespace(capi.Namespace)
	o.SetName("m1")
	o.SetLabels(map[string]string{"dovetail.sh/cluster-uid": string(system.UID)})
	o.SetAnnotations(map[string]string{drainHook: "dovetail", "machine.cluster.x-k8s.io/exclude-node-draining": "", "example.com/kept": ""})
	noError(t, c.Create(t.Context(), o))
	other := o.DeepCopy()
	other.SetResourceVersion("")
	other.SetName("m2")
	other.SetLabels(map[string]string{"dovetail.sh/cluster-uid": "another"})
	noError(t, c.Create(t.Context(), other))
	return o
}

// demandReleased fails unless the hook is off, and on what is of another cluster it is not.
func demandReleased(t *testing.T, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	for name, want := range map[string]int{"m1": 1, "m2": 3} {
		noError(t, c.Get(t.Context(), client.ObjectKey{Namespace: capi.Namespace, Name: name}, o))
		if got := o.GetAnnotations(); len(got) != want {
			t.Errorf("Machine %s has annotations %v, want %d", name, got, want)
		}
	}
}
