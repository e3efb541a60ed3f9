package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

const (
	// capiPods pods of one cpu are on capiPods/capi.CPUs nodes at the end, since no plan leaves a node half full
	// that the next could fill.
	capiPods = 100
	// capiPatience bounds waits for Cluster API: it may take half a minute until its controllers have
	// connected to the cluster, and as long again after a restart.
	capiPatience = 4 * time.Minute
	// capiLife is how long a life may last in which nothing happens.
	capiLife = 20 * time.Second

	theController = "the controller"
	drainHook     = "pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"
)

var capiKills = flag.Int("capi-kills", 4, "how often TestClusterAPI kills the controller or one of Cluster API's")

// TestClusterAPI has 100 pods come and go on nodes of Cluster API, whose own controllers run. At random moments the
// controller, Cluster API's or its Dev provider's are killed. In the end NodeClaims, Machines, virtual
// machines and Nodes are one to one. -crash-seed repeats a choice of moments, as far as that goes with real processes.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	t.Logf("-capi-kills=%d -crash-seed=%d", *capiKills, *crashSeed)
	f := newFleet(t)
	up := max(1, (*capiKills+1)/2)
	for i := range up {
		deploy(t, f.client, capiPods*(i+1)/up)
		if i < *capiKills {
			f.life(grown)
		}
	}
	testkit.Eventually(t, capiPatience, func() error {
		if now := f.observe(); now.running() != capiPods || len(now.pods) != capiPods {
			return fmt.Errorf("%d of %d pods run, want %d; %d nodes, %d claims", now.running(), len(now.pods), capiPods, len(now.nodes), len(now.claims))
		}
		return f.agree()
	})
	f.stage("all pods run")
	// No kill has anything launched twice: a claim that was decided is capacity to the next life.
	if want := capiPods/capi.CPUs + *capiKills; len(f.claims) > want {
		t.Errorf("there were %d claims; for %d pods it should be %d at the most", len(f.claims), capiPods, want)
	}
	f.overlaid()
	f.saved()
	f.held()
	deploy(t, f.client, 0)
	for range *capiKills - up {
		f.life(shrunk)
	}
	testkit.Eventually(t, capiPatience, f.nothingLeft)
	f.stage("nothing is left")
	if status := f.controller.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// fleet is a cluster with Cluster API in it, and a controller.
type fleet struct {
	t          *testing.T
	client     client.Client
	capi       *capi.Cluster
	rights     string
	random     *rand.Rand
	controller *process
	claims     map[types.UID]bool // all that were ever seen
	kills      int
	victims    []string // who is killed next; each of the three once in three kills
	began      time.Time
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	programs := testkit.Binary(t, "capi") // to be skipped before anything is started
	cluster := testkit.StartCluster(t)
	f := &fleet{t: t, client: connect(t, cluster), random: rand.New(rand.NewPCG(*crashSeed, 1)), claims: map[types.UID]bool{}, began: time.Now()}
	installDefinitions(t, f.client)
	f.rights = asInstalled(t, cluster, f.client, "providers")
	f.capi = capi.Start(t, cluster, f.client)
	f.capi.RunKubelets()
	t.Logf("Cluster API is of %s", programs)
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for _, o := range []client.Object{class, fleetPool(), fleetPrice()} {
		if err := f.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	f.simulate(cluster.Kubeconfig)
	f.start()
	testkit.Eventually(t, patience, func() error {
		var price karpenterv1alpha1.NodeOverlay
		err := f.client.Get(t.Context(), client.ObjectKeyFromObject(fleetPrice()), &price)
		if err == nil && !meta.IsStatusConditionTrue(price.Status.Conditions, karpenterv1alpha1.ConditionTypeValidationSucceeded) {
			err = fmt.Errorf("the NodeOverlay says %+v", price.Status.Conditions)
		}
		return errors.Join(err, poolReady(t.Context(), f.client))
	})
	f.stage("the pool is ready")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last controller: %s", f.controller)
		}
	})
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

// fleetPool is a pool of the nodes that come, all of which may go at once.
func fleetPool() *karpenterv1.NodePool {
	second := time.Second
	return &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: karpenterv1.NodePoolSpec{
		Disruption: karpenterv1.Disruption{
			ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmpty, ConsolidateAfter: karpenterv1.NillableDuration{Duration: &second},
			Budgets: []karpenterv1.Budget{{Nodes: "100%"}},
		},
		Template: karpenterv1.NodeClaimTemplate{Spec: karpenterv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: "default"},
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{capi.Alloy, capi.Metal}}},
		}},
	}}
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
	testkit.Eventually(t, capiPatience, func() error {
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(&claim), &claim); !apierrors.IsNotFound(err) {
			return fmt.Errorf("claim %s is there: %w", claim.Name, err)
		}
		if now := f.observe(); now.running() != capiPods {
			return fmt.Errorf("%d of %d pods run", now.running(), capiPods)
		}
		return f.agree()
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
	testkit.Eventually(f.t, capiPatience, func() error {
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

func (f *fleet) start() {
	f.t.Helper()
	f.controller = start(f.t, "controller", "--kubeconfig", f.rights, "--metrics-port", "0", "--health-probe-port", "0", "--debug-port", "0",
		"--cloud-provider", "clusterapi", "--cluster-api-namespace", capi.Namespace, "--disable-leader-election=true", "--batch-idle-duration", "300ms", "--feature-gates", "NodeOverlay=true")
}

// life waits until a random number of steps has been done, kills one of the three programs, and starts it again.
func (f *fleet) life(done func(*picture) int) {
	f.t.Helper()
	before, steps := done(f.observe()), f.random.IntN(growMost)
	if len(f.victims) == 0 {
		f.victims = []string{theController, capi.Core, capi.Dev}
		f.random.Shuffle(len(f.victims), func(i, j int) { f.victims[i], f.victims[j] = f.victims[j], f.victims[i] })
	}
	victim := f.victims[0]
	f.victims = f.victims[1:]
	end, tick := time.NewTimer(capiLife), time.NewTicker(observeEvery)
	defer end.Stop()
	defer tick.Stop()
	for over := false; !over && done(f.observe()) < before+steps; {
		select {
		case <-end.C:
			over = true
		case <-tick.C:
		}
	}
	f.kills++
	if victim == theController {
		if !f.controller.running() {
			f.t.Fatalf("the controller ended by itself:\n%s", f.controller)
		}
		f.controller.kill()
		f.start()
	} else {
		f.capi.Kill(victim)
		f.capi.Run(victim)
	}
	f.stage(fmt.Sprintf("kill %d, %s, after %d of %d steps", f.kills, victim, done(f.observe())-before, steps))
}

func (f *fleet) observe() *picture {
	f.t.Helper()
	p, err := observe(f.t.Context(), f.client)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range p.claims {
		f.claims[p.claims[i].UID] = true
	}
	return p
}

// stage logs how far the test is.
func (f *fleet) stage(what string) {
	f.t.Helper()
	now := f.observe()
	f.t.Logf("%5.1f s: %s; %d claims, %d nodes, %d of %d pods run", time.Since(f.began).Seconds(), what, len(now.claims), len(now.nodes), now.running(), len(now.pods))
}

// machines returns what there is of a kind, by provider ID.
func (f *fleet) machines(group, kind string) (map[string]*unstructured.Unstructured, error) {
	all, err := f.capi.List(f.t.Context(), group, kind)
	if err != nil {
		return nil, err
	}
	byID := map[string]*unstructured.Unstructured{}
	for i := range all {
		id, _, _ := unstructured.NestedString(all[i].Object, "spec", "providerID")
		if id == "" {
			id = "without one: " + all[i].GetName()
		}
		byID[id] = &all[i]
	}
	if len(byID) != len(all) {
		return nil, fmt.Errorf("%d %ss have %d provider IDs", len(all), kind, len(byID))
	}
	return byID, nil
}

// agree returns an error unless claims, Machines, virtual machines and Nodes are the same.
func (f *fleet) agree() error {
	now := f.observe()
	machines, err := f.machines(capi.CoreGroup, "Machine")
	if err != nil {
		return err
	}
	virtual, err := f.machines(capi.InfraGroup, "DevMachine")
	if err != nil {
		return err
	}
	nodes := map[string]*corev1.Node{}
	for i := range now.nodes {
		nodes[now.nodes[i].Spec.ProviderID] = &now.nodes[i]
	}
	if n := len(now.claims); len(machines) != n || len(virtual) != n || len(nodes) != n || len(now.nodes) != n {
		return fmt.Errorf("%d claims, %d Machines, %d virtual machines, %d Nodes", n, len(machines), len(virtual), len(now.nodes))
	}
	for i := range now.claims {
		nc := &now.claims[i]
		id := nc.Status.ProviderID
		switch {
		case nc.DeletionTimestamp != nil || !is(nc, karpenterv1.ConditionTypeInitialized):
			return fmt.Errorf("claim %s is not initialized, or goes", nc.Name)
		case machines[id] == nil || virtual[id] == nil || nodes[id] == nil:
			return fmt.Errorf("claim %s has the provider ID %s, which has Machine %v, virtual machine %v, Node %v", nc.Name, id, machines[id] != nil, virtual[id] != nil, nodes[id] != nil)
		case machines[id].GetName() != nc.Name || nodes[id].Name != nc.Status.NodeName:
			return fmt.Errorf("claim %s with node %s has the Machine %s and the Node %s", nc.Name, nc.Status.NodeName, machines[id].GetName(), nodes[id].Name)
		}
	}
	return nil
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

// nothingLeft returns an error while there is a claim, a Machine, a virtual machine, a Node or a pod.
func (f *fleet) nothingLeft() error {
	now := f.observe()
	machines, err := f.machines(capi.CoreGroup, "Machine")
	virtual, errVirtual := f.machines(capi.InfraGroup, "DevMachine")
	if err := errors.Join(err, errVirtual); err != nil {
		return err
	}
	if len(now.claims)+len(machines)+len(virtual)+len(now.nodes)+len(now.pods) > 0 {
		return fmt.Errorf("%d claims, %d Machines, %d virtual machines, %d Nodes and %d pods are left", len(now.claims), len(machines), len(virtual), len(now.nodes), len(now.pods))
	}
	return nil
}
