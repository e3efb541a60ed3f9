package clusterapi_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/capi"
)

// TestHeld reads and releases what has our hook and is of one cluster, whichever version is served.
func TestHeld(t *testing.T) {
	t.Parallel()
	devcluster := testkit.StartCluster(t)
	c := clientWith(t, devcluster)
	if held, err := clusterapi.ReadHeld(t.Context(), c, "", "u1"); err != nil || !held.Unserved || held.Len() != 0 {
		t.Errorf("without Cluster API: %+v, %v; want that it is not served", held, err)
	}
	c = clientWith(t, devcluster, capi.Definition(coreGroup, "Machine", "machines", "v1beta2"))
	const annotations = `{pre-drain.delete.hook.machine.cluster.x-k8s.io/dovetail: dovetail, machine.cluster.x-k8s.io/exclude-node-draining: "", example.com/kept: ""}`
	for name, uid := range map[string]string{"m1": "u1", "m2": "u2"} {
		createAll(t, c, object(t, "apiVersion: %s/v1beta2\nkind: Machine\nmetadata: {name: %s, namespace: default, labels: {dovetail.sh/cluster-uid: %s}, annotations: %s}", coreGroup, name, uid, annotations))
	}
	fresh, err := client.NewWithWatch(devcluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := clusterapi.ReadHeld(t.Context(), fresh, "", "u1")
	if err != nil || held.Unserved || held.Len() != 1 {
		t.Fatalf("held: %+v, %v; want one", held, err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first, second := machine(t, c, "m1").GetAnnotations(), machine(t, c, "m2").GetAnnotations(); len(first) != 1 || len(second) != 3 {
		t.Errorf("annotations are %v and %v, want the hook off the first alone", first, second)
	}
}
