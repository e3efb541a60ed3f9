package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/capi"
)

// TestClusterAPIControllers runs the provider against Cluster API's own controllers and those of its Dev provider.
func TestClusterAPIControllers(t *testing.T) {
	t.Parallel()
	devcluster := testkit.StartCluster(t)
	c := clientWith(t, devcluster)
	m := capi.Start(t, devcluster, c)
	createAll(t, c, object(t, "apiVersion: karpenter.cluster.x-k8s.io/v1alpha1\nkind: ClusterAPINodeClass\nmetadata: {name: metal}\nspec: {}"))
	p := newProvider(t, c)
	type story struct {
		name string
		test func(*testing.T, client.WithWatch, *clusterapi.Provider)
	}
	run := func(stories ...story) {
		for _, s := range stories {
			t.Run(s.name, func(t *testing.T) { s.test(t, c, p) })
		}
	}
	run(
		story{"an instance lives, drifts and is deleted by somebody else", realLife},
		story{"replicas of the earlier provider are adopted", realAdoption},
		story{"twenty instances come and go", realReplicas},
	)
	m.RunKubelets() // before, Nodes are made by hand
	run(
		story{"a pod that nobody may evict holds no Machine", realDrain},
		story{"a host is free when the infrastructure has let go of it", realHost},
		story{"a paused Cluster is why an instance does not end", realPause},
	)
	t.Run("the suite", func(t *testing.T) {
		realWorld(t, c, m)
		cloudtest.Run(t, func(t *testing.T) cloudtest.Harness { return harness(t, c) })
	})
}

// realLife is the life of an instance, and of one that never comes.
func realLife(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
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
	awaitNode(t, c, r.Claim)
	realDrift(t, c, p, instance)
	realDeletion(t, c, p, of, r, instance)
	realFailure(t, c, p, of)
}

// awaitNode waits until Cluster API has seen the Node of a Machine, which has its name.
func awaitNode(t *testing.T, c client.Client, name string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if node, _, _ := unstructured.NestedString(machine(t, c, name).Object, "status", "nodeRef", "name"); node != name {
			return fmt.Errorf("the Machine has the Node %q", node)
		}
		return nil
	})
}

// realDrift edits the MachineDeployment, and undoes it: Cluster API makes no Machine of a later version than its control plane.
func realDrift(t *testing.T, c client.Client, p *clusterapi.Provider, instance cloud.Instance) {
	t.Helper()
	for _, after := range []struct{ version, want string }{{"v1.38.0", "VersionDrift"}, {"v1.37.1", ""}} {
		edit(t, c, coreGroup, "MachineDeployment", "metal", func(o *unstructured.Unstructured) { set(t, o, after.version, "spec", "template", "spec", "version") })
		if got, err := p.Drifted(t.Context(), ref("metal"), instance.ID); err != nil || got != after.want {
			t.Errorf("drifted with version %s: %q, %v; want %q", after.version, got, err, after.want)
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

// realAdoption has a MachineDeployment with three replicas, of which the earlier provider has taken two, and ends one of
// these two.
func realAdoption(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
	t.Helper()
	edit(t, c, coreGroup, "MachineDeployment", "metal", func(o *unstructured.Unstructured) { set(t, o, int64(3), "spec", "replicas") })
	var names []string
	testkit.Eventually(t, patience, func() error {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(schema.GroupVersionKind{Group: coreGroup, Version: "v1beta2", Kind: "MachineList"})
		if err := c.List(t.Context(), all, client.MatchingLabels{"cluster.x-k8s.io/deployment-name": "metal"}); err != nil {
			return err
		}
		names = nil
		for i := range all.Items {
			if id, _, _ := unstructured.NestedString(all.Items[i].Object, "spec", "providerID"); id == "in-memory://"+all.Items[i].GetName() {
				names = append(names, all.Items[i].GetName())
			}
		}
		if len(names) != 3 {
			return fmt.Errorf("%d of %d Machines have a provider ID, want 3", len(names), len(all.Items))
		}
		return nil
	})
	for _, name := range names[:2] {
		claim(t, c, name)
		joins(t, c, name, "in-memory://"+name, true)
	}
	testkit.Eventually(t, patience, func() error {
		if n := len(listed(t, p, "in-memory:")); n != 2 {
			return fmt.Errorf("%d instances are listed, want those two whose Node is of a NodePool", n)
		}
		return nil
	})
	gone(t, p, "in-memory://"+names[0])
	if n := scale(t, c, "metal"); n != 2 {
		t.Errorf("%d replicas, want 2", n)
	}
	if _, holds := machine(t, c, names[1]).GetAnnotations()["pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"]; !holds || machine(t, c, names[2]).GetDeletionTimestamp() != nil {
		t.Errorf("the others are %v and %v, want the first held and the second as it was", machine(t, c, names[1]), machine(t, c, names[2]))
	}
	gone(t, p, "in-memory://"+names[1])
	edit(t, c, coreGroup, "MachineDeployment", "metal", func(o *unstructured.Unstructured) { set(t, o, int64(0), "spec", "replicas") })
}

// realReplicas launches twenty instances and ends them.
func realReplicas(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
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
		if err := p.Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	for id := range ids {
		gone(t, p, id)
	}
}

// realDrain has a pod on the node that our drain leaves where it is, since it tolerates all taints, and whose
// PodDisruptionBudget has nobody evict it. Cluster API would wait for it for ever.
func realDrain(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
	r := requestOf(t, p, "metal", 200)
	instance := settled(t, p, launch(t, p, r).ID)
	awaitNode(t, c, r.Claim)
	pod := object(t, "{apiVersion: v1, kind: Pod, metadata: {name: stays, namespace: default, labels: {app: stays}}, spec: {nodeName: %s, terminationGracePeriodSeconds: 0, tolerations: [{operator: Exists}], containers: [{name: a, image: a}]}}", r.Claim)
	createAll(t, c, object(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: stays, namespace: default}, spec: {minAvailable: 1, selector: {matchLabels: {app: stays}}}}"), pod)
	testkit.Eventually(t, patience, func() error { // until the budget holds: nobody needs it for a pod that does not run
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase != string(corev1.PodRunning) {
			return fmt.Errorf("the pod is %s", phase)
		}
		return nil
	})
	evicted := c.SubResource("eviction").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stays", Namespace: "default"}}, &policyv1.Eviction{})
	if !apierrors.IsTooManyRequests(evicted) {
		t.Errorf("an eviction of the pod is answered with %v, want that its budget has none", evicted)
	}
	gone(t, p, instance.ID)
	if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// realHost has a MachineDeployment that may have one node. Its host is being cleaned for as long as the virtual machine has a
// finalizer of its own.
func realHost(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
	first, second := requestOf(t, p, "alloy", 201), requestOf(t, p, "alloy", 202)
	limit := func(nodes string) {
		t.Helper()
		edit(t, c, coreGroup, "MachineDeployment", "alloy", func(o *unstructured.Unstructured) {
			set(t, o, nodes, "metadata", "annotations", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size")
		})
	}
	limit("1")
	offered := func(want bool) {
		t.Helper()
		types, err := p.Types(t.Context(), ref("metal"))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(types, func(is *catalog.Type) bool { return is.Name == "alloy" })
		if got := types[i].Offerings[0].Available; got != want {
			t.Errorf("there is a host: %t, want %t", got, want)
		}
		if want {
			return
		}
		var failure *cloud.Failure
		if err := p.Launch(t.Context(), []cloud.LaunchRequest{second})[0].Err; !errors.As(err, &failure) || failure.Kind != cloud.NoCapacity {
			t.Errorf("launched without a host: %v, want no capacity", err)
		}
	}
	offered(true)
	instance := settled(t, p, launch(t, p, first).ID)
	offered(false)
	const cleaning = "example.com/cleaning"
	edit(t, c, infraGroup, "DevMachine", first.Claim, func(o *unstructured.Unstructured) { o.SetFinalizers(append(o.GetFinalizers(), cleaning)) })
	if err := p.Terminate(t.Context(), instance.ID); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		o, err := get(t, c, infraGroup, "v1beta2", "DevMachine", first.Claim)
		if err == nil && (o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 1) {
			err = errors.New("the virtual machine has not ended")
		}
		return err
	})
	offered(false)
	edit(t, c, infraGroup, "DevMachine", first.Claim, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	gone(t, p, instance.ID)
	offered(true)
	next := settled(t, p, launch(t, p, second).ID)
	gone(t, p, next.ID)
	limit("100")
}

// realPause pauses the Cluster before an instance ends.
func realPause(t *testing.T, c client.WithWatch, p *clusterapi.Provider) {
	r := requestOf(t, p, "metal", 203)
	instance := settled(t, p, launch(t, p, r).ID)
	pause := func(is bool) {
		t.Helper()
		edit(t, c, coreGroup, "Cluster", "metal", func(o *unstructured.Unstructured) { set(t, o, is, "spec", "paused") })
	}
	pause(true)
	testkit.Eventually(t, patience, func() error {
		err := p.Terminate(t.Context(), instance.ID)
		if err == nil || errors.Is(err, cloud.ErrNotFound) || !strings.Contains(err.Error(), "Cluster spec.paused is set to true") {
			return fmt.Errorf("terminate: %w, want that the Cluster is paused", err)
		}
		return nil
	})
	if machine(t, c, r.Claim).GetDeletionTimestamp() == nil {
		t.Error("the Machine is not deleted")
	}
	pause(false)
	gone(t, p, instance.ID)
}

// realWorld is what the suite needs: for each class MachineDeployments that differ in price, of the types small and large.
func realWorld(t *testing.T, c client.Client, m *capi.Cluster) {
	t.Helper()
	m.Add(m.Object("apiVersion: %s/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {name: worker}\nspec: {template: {spec: {}}}", bootGroup))
	for name, startup := range map[string]string{"soon": "1s", "never": "1h"} {
		m.Add(m.Object("apiVersion: %s/v1beta2\nkind: DevMachineTemplate\nmetadata: {name: %s}\nspec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: %s}}, node: {provisioning: {startupDuration: 0s}}}}}}}", infraGroup, name, startup))
	}
	const dev = "DevMachineTemplate"
	add := func(class, size, kind, template string) {
		annotations := map[string]string{"capacity.cluster-autoscaler.kubernetes.io/labels": "node.kubernetes.io/instance-type=" + size, "cluster.x-k8s.io/machine-current-price": "0.2"}
		if size == "large" {
			annotations["cluster.x-k8s.io/machine-current-price"] = "0.4"
		}
		if class != "unready" {
			annotations["capacity.cluster-autoscaler.kubernetes.io/cpu"], annotations["capacity.cluster-autoscaler.kubernetes.io/memory"] = "2", "4Gi"
		}
		m.AddDeployment(capi.Deployment{Name: class + "-" + size, Kind: kind, Template: template, Bootstrap: "worker", Labels: map[string]string{"class": class}, Annotations: annotations})
	}
	add("default", "small", dev, "soon")
	add("default", "large", dev, "soon")
	add("accepts", "small", dev, "soon")
	add("fails", "small", "TestMachineTemplate", capi.Short)
	add("slow", "small", dev, "never")
	add("unready", "small", dev, "soon")
	add("changing", "small", dev, "soon")
	for _, name := range []string{"default", "accepts", "fails", "slow", "unready", "changing"} {
		class(t, c, name)
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
