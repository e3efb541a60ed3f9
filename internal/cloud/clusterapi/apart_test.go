package clusterapi_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestManagementClusterApart has Machines in one cluster and their Nodes, classes and UID in another. What runs for the
// management cluster itself does not take these Machines for its own.
func TestManagementClusterApart(t *testing.T) {
	t.Parallel()
	nodes, management := clientWith(t, testkit.StartCluster(t)), connect(t, "v1beta2")
	createAll(t, management,
		object(t, "apiVersion: %s/v1beta2\nkind: Cluster\nmetadata: {name: metal, namespace: default}\nspec: {}", coreGroup),
		object(t, "apiVersion: %s/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {name: worker, namespace: default}\nspec: {template: {spec: {}}}", bootGroup))
	addDeployment(t, management, "v1beta2", "apart", "small", 2, "{}")
	class(t, nodes, "apart")
	(&fakeCAPI{t: t, client: management, nodes: nodes, version: "v1beta2"}).run()
	p, err := clusterapi.New(nodes, clusterapi.Options{Management: management, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, p, "apart", 0)
	instance := settled(t, p, launch(t, p, r).ID)
	testkit.Eventually(t, patience, func() error { return nodes.Get(t.Context(), client.ObjectKey{Name: r.Claim}, &corev1.Node{}) })
	system := &corev1.Namespace{}
	if err := nodes.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	if got := machine(t, management, r.Claim).GetLabels()["dovetail.sh/cluster-uid"]; got != string(system.UID) {
		t.Errorf("the Machine is of the cluster %q, want %q", got, system.UID)
	}
	for whose, want := range map[*clusterapi.Provider]int{p: 1, newProvider(t, management): 0} {
		if listed, err := whose.List(t.Context()); err != nil || len(listed) != want {
			t.Errorf("listed %+v, %v; want %d instances", listed, err, want)
		}
	}
	gone(t, p, instance.ID)
}
