package clusterapi_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/capi"
)

// TestClusterAPIEarlier has the definitions of the release that the earlier Karpenter provider was made for. They keep no field
// that they do not know.
func TestClusterAPIEarlier(t *testing.T) {
	t.Parallel()
	all := capi.Earlier(t)
	c := clientWith(t, testkit.StartCluster(t), all...)
	const version = "v1beta1"
	createAll(t, c,
		object(t, "apiVersion: %s/%s\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {}", coreGroup, version),
		object(t, "apiVersion: %s/%s\nkind: KubeadmConfigTemplate\nmetadata: {name: worker, namespace: default}\nspec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {kube-reserved: cpu=200m}, taints: [{key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}]}}}}}", bootGroup, version))
	class(t, c, "earlier")
	addDeployment(t, c, version, "earlier", "small", 2, "{}")
	(&fakeCAPI{t: t, client: c, version: version}).run()
	p := newProvider(t, c)
	r := request(t, p, "earlier", 0)
	instance := settled(t, p, launch(t, p, r).ID)
	if got := r.Choices[0].Type.Overhead["cpu"]; got != 200 {
		t.Errorf("the kubelet keeps %dm of cpu, want 200m", got)
	}
	o, err := get(t, c, coreGroup, version, "Machine", r.Claim)
	if err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string][]string{
		"TestMachine":   {"spec", "infrastructureRef", "kind"},
		"KubeadmConfig": {"spec", "bootstrap", "configRef", "kind"},
		"metal":         {"spec", "clusterName"},
		"v1.37.1":       {"spec", "version"},
		instance.ID:     {"spec", "providerID"},
	} {
		if got, _, _ := unstructured.NestedString(o.Object, path...); got != want {
			t.Errorf("the Machine has %v %q, want %q", path, got, want)
		}
	}
	var node *corev1.Node
	testkit.Eventually(t, patience, func() error {
		var nodes corev1.NodeList
		err := c.List(t.Context(), &nodes)
		i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.ProviderID == instance.ID })
		if i < 0 {
			return errors.Join(err, errors.New("it has no Node"))
		}
		node = &nodes.Items[i]
		return nil
	})
	if node.Labels["karpenter.sh/nodepool"] != "general" || !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "karpenter.sh/unregistered" }) {
		t.Errorf("the Node has labels %v and taints %v, want those of the request", node.Labels, node.Spec.Taints)
	}
	if listed, err := newProvider(t, c).List(t.Context()); err != nil || len(listed) != 1 || listed[0].ID != instance.ID || listed[0].Claim != r.Claim {
		t.Errorf("listed after a restart: %+v, %v; want %s", listed, err, instance.ID)
	}

	deployment, err := get(t, c, coreGroup, version, "MachineDeployment", "earlier-small")
	if err != nil {
		t.Fatal(err)
	}
	set(t, deployment, "v1.38.0", "spec", "template", "spec", "version")
	if err := c.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Drifted(t.Context(), ref("earlier"), instance.ID); err != nil || got != "VersionDrift" {
		t.Errorf("drifted: %q, %v; want VersionDrift", got, err)
	}
	gone(t, p, instance.ID)
	if _, err := p.Get(t.Context(), instance.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("when it is gone: %v, want that it is not found", err)
	}
}
