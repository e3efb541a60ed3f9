package api

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// served is what the API server says of a kind.
type served struct {
	Namespaced             bool
	ShortNames, Categories []string
	Subresources           []string
	// Columns of kubectl get; those of kubectl get -o wide are marked with a star.
	Columns []string
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind kind
		want served
	}{
		"NodePool": {nodePool, served{
			Categories: []string{"karpenter"}, Subresources: []string{"scale", "status"},
			Columns: []string{"Name", "NodeClass", "Nodes", "Ready", "Age", "Weight*", "CPU*", "Memory*"},
		}},
		"NodeClaim": {nodeClaim, served{
			Categories: []string{"karpenter"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Type", "Capacity", "Zone", "Node", "Ready", "Age", "ImageID*", "ID*", "NodePool*", "NodeClass*", "Drifted*"},
		}},
		"NodeOverlay": {nodeOverlay, served{
			ShortNames: []string{"overlays"}, Categories: []string{"karpenter"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Ready", "Age", "Weight*"},
		}},
		"CapacityBuffer": {capacityBuffer, served{
			Namespaced: true, ShortNames: []string{"cb"}, Categories: []string{"autoscaling"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Strategy", "PodTemplate", "Replicas", "ConditionsType", "ConditionsStatus", "ConditionsReason", "Age"},
		}},
		"EC2NodeClass": {ec2NodeClass, served{
			ShortNames: []string{"ec2nc", "ec2ncs"}, Categories: []string{"karpenter"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Ready", "Age", "Role*"},
		}},
		"ClusterAPINodeClass": {clusterAPINodeClass, served{
			Categories: []string{"karpenter"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Ready", "Age"},
		}},
		"KWOKNodeClass": {kwokNodeClass, served{
			ShortNames: []string{"kwoknc", "kwokncs"}, Categories: []string{"karpenter"}, Subresources: []string{"status"},
			Columns: []string{"Name", "Age"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := discover(t, tt.kind)
			got.Columns = columns(t, tt.kind)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
		})
	}
}

func discover(t *testing.T, k kind) served {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(server(t))
	if err != nil {
		t.Fatal(err)
	}
	resources, err := client.ServerResourcesForGroupVersion(k.resource.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	var out served
	for _, r := range resources.APIResources {
		switch r.Name {
		case k.resource.Resource:
			out.Namespaced, out.ShortNames, out.Categories = r.Namespaced, r.ShortNames, r.Categories
		case k.resource.Resource + "/scale":
			out.Subresources = append(out.Subresources, "scale")
		case k.resource.Resource + "/status":
			out.Subresources = append(out.Subresources, "status")
		}
	}
	slices.Sort(out.Subresources)
	return out
}

// columns asks for the kind as kubectl get does.
func columns(t *testing.T, k kind) []string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := rest.CopyConfig(server(t))
	gv := k.resource.GroupVersion()
	c.GroupVersion, c.APIPath = &gv, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.AcceptContentTypes = "application/json;as=Table;v=v1;g=meta.k8s.io"
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := client.Get().Resource(k.resource.Resource).Do(t.Context()).Into(table); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range table.ColumnDefinitions {
		name := c.Name
		if c.Priority > 0 {
			name += "*"
		}
		out = append(out, name)
	}
	return out
}

// TestScale checks that kubectl scale works on a static pool.
func TestScale(t *testing.T) {
	t.Parallel()
	client := nodePool.client(t)
	if _, err := client.Create(t.Context(), with(t, nodePool.object(t, "scaled"), "spec", "{replicas: 2}"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	u, err := client.Get(t.Context(), "scaled", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	if scale := typed[autoscalingv1.Scale](t, u); scale.Spec.Replicas != 2 {
		t.Errorf("scale says %d replicas, want 2", scale.Spec.Replicas)
	}
}
