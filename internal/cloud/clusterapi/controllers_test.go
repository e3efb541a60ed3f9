package clusterapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
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
	capi.Start(t, devcluster, c)
	createAll(t, c, object(t, "apiVersion: karpenter.cluster.x-k8s.io/v1alpha1\nkind: ClusterAPINodeClass\nmetadata: {name: metal}\nspec: {}"))
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
	realAdoption(t, c, p)
	realReplicas(t, c, p)
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
func realAdoption(t *testing.T, c client.Client, p *clusterapi.Provider) {
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
		if err := p.Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
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
