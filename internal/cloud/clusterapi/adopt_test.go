package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// joins has a replica join as a Node, which belongs to a NodePool if it has the earlier provider's NodeClaim.
func joins(t *testing.T, c client.Client, name, id string, claimed bool) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: id}}
	if claimed {
		node.Labels["karpenter.sh/nodepool"] = "general"
	}
	createAll(t, c, node)
}

// claim marks a Machine as the earlier provider does when it takes it for a NodeClaim.
func claim(t *testing.T, c client.Client, name string) {
	t.Helper()
	edit(t, c, coreGroup, "Machine", name, func(o *unstructured.Unstructured) {
		set(t, o, "", "metadata", "labels", clusterapi.MemberLabel)
	})
}

// scale returns the replicas of a MachineDeployment.
func scale(t *testing.T, c client.Client, name string) (replicas int64) {
	t.Helper()
	o, err := get(t, c, coreGroup, "v1beta2", "MachineDeployment", name)
	if err != nil {
		t.Fatal(err)
	}
	replicas, _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
	return replicas
}

// listed returns the names of the Machines of a prefix that the provider lists.
func listed(t *testing.T, p *clusterapi.Provider, prefix string) (ids []string) {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if strings.HasPrefix(i.ID, prefix) {
			ids = append(ids, i.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// replicas has a MachineDeployment with six replicas: the earlier provider has taken four of them for NodeClaims, of which
// one has no Node yet.
func replicas(t *testing.T, c client.WithWatch) {
	createAll(t, c, object(t, "apiVersion: %s/v1beta2\nkind: MachineDeployment\nmetadata: {name: had, namespace: default}\nspec: {clusterName: metal, replicas: 6}", coreGroup))
	for i := range 6 {
		name := fmt.Sprintf("had-%d", i)
		createAll(t, c,
			object(t, "apiVersion: %s/v1beta1\nkind: TestMachine\nmetadata: {name: %s, namespace: default}\nspec: {cpus: 2, memory: 8Gi, providerID: \"had:///%d\"}", infraGroup, name, i),
			object(t, "apiVersion: %s/v1beta2\nkind: Machine\nmetadata: {name: %s, namespace: default, labels: {cluster.x-k8s.io/deployment-name: had}}\nspec: {clusterName: metal, providerID: \"had:///%d\", infrastructureRef: {apiGroup: %s, kind: TestMachine, name: %s}}", coreGroup, name, i, infraGroup, name))
		if i == 0 {
			continue
		}
		joined := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"nodeRef":{"name":%q}}}`, name))
		if err := c.Status().Patch(t.Context(), machine(t, c, name), joined); err != nil {
			t.Fatal(err)
		}
	}
	p := newProvider(t, c)
	if ids := listed(t, p, "had:"); len(ids) != 0 {
		t.Errorf("listed %v, want none: nobody has taken them", ids)
	}
	if _, err := p.Get(t.Context(), "had:///5"); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("a replica that the earlier provider has not taken: %v, want that it is not found", err)
	}
	for i := range 4 {
		claim(t, c, fmt.Sprintf("had-%d", i))
		if i > 0 {
			joins(t, c, fmt.Sprintf("had-%d", i), fmt.Sprintf("had:///%d", i), i < 3)
		}
	}
	if ids := listed(t, p, "had:"); !slices.Equal(ids, []string{"had:///1", "had:///2"}) {
		t.Errorf("listed %v, want those whose Node is of a NodePool", ids)
	}
	if got, err := p.Get(t.Context(), "had:///0"); err != nil || got.ID != "had:///0" || got.Terminating {
		t.Errorf("one without a Node that is asked for: %+v, %v; want the instance", got, err)
	}
	if reason, err := p.Drifted(t.Context(), ref("default"), "had:///1"); reason != "" || err != nil {
		t.Errorf("drift: %q, %v; want none", reason, err)
	}
	for range 2 { // to ask again takes no other one
		for _, id := range []string{"had:///0", "had:///1"} {
			if err := newProvider(t, c).Terminate(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if n := scale(t, c, "had"); n != 4 {
			t.Errorf("%d replicas, want 4", n)
		}
	}
	for i := range 4 {
		annotations := machine(t, c, fmt.Sprintf("had-%d", i)).GetAnnotations()
		_, goes := annotations["cluster.x-k8s.io/delete-machine"]
		_, holds := annotations["pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail"]
		if goes != (i < 2) || holds != (i == 2) {
			t.Errorf("replica %d has annotations %v, want the first two to go and the third to be held", i, annotations)
		}
	}
	for _, conditions := range []string{`[{"type":"Paused","status":"True","message":"Cluster spec.paused is set to true"}]`, "null"} {
		status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"conditions":%s}}`, conditions))
		if err := c.Status().Patch(t.Context(), machine(t, c, "had-1"), status); err != nil {
			t.Fatal(err)
		}
		if err := p.Terminate(t.Context(), "had:///1"); (err != nil) != (conditions != "null") || err != nil && !strings.Contains(err.Error(), "it is paused (Cluster spec.paused is set to true)") {
			t.Errorf("terminated with conditions %s: %v, want an error only while it is paused", conditions, err)
		}
	}
	// Somebody else scales up: none is taken before all replicas are there.
	edit(t, c, coreGroup, "MachineDeployment", "had", func(o *unstructured.Unstructured) { set(t, o, int64(9), "spec", "replicas") })
	if err := p.Terminate(t.Context(), "had:///2"); err == nil || !strings.Contains(err.Error(), "6 of 9 replicas") {
		t.Errorf("terminated while somebody scales up: %v, want that it has 6 of 9 replicas", err)
	}
	edit(t, c, coreGroup, "MachineDeployment", "had", func(o *unstructured.Unstructured) { set(t, o, int64(4), "spec", "replicas") })
	for i := range 2 {
		if err := c.Delete(t.Context(), machine(t, c, fmt.Sprintf("had-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error { return p.Terminate(t.Context(), "had:///2") })
	if n := scale(t, c, "had"); n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
	if replicas := machine(t, c, "had-3"); replicas.GetDeletionTimestamp() != nil {
		t.Error("one that is not ours was deleted")
	}
}
