package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestOlderManifests applies a NodePool of v1beta1 whose reference is a name alone, and a NodePool of v1
// without one, from the client and from the server. Pods get nodes of both, and nothing has drifted.
func TestOlderManifests(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	installDefinitions(t, c)
	read := func(manifest string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	if err := c.Create(t.Context(), read("{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}")); err != nil {
		t.Fatal(err)
	}
	beta := read(`
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: beta}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]
      nodeClassRef: {name: default}
      resources: {requests: {cpu: 1}}
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 100h}
`)
	if err := c.Create(t.Context(), beta); err != nil {
		t.Fatal(err)
	}
	const bare = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: bare}
spec:
  template:
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {cpu: 64}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}
`
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(read(bare)), client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	controller(t, cluster.Kubeconfig, "--disable-leader-election=true", "--batch-idle-duration", "300ms")
	for name, pod := range map[string]string{
		"beta": "{nodeSelector: {karpenter.sh/nodepool: beta}, containers: [{name: c, image: i}]}",
		"bare": "{nodeSelector: {karpenter.sh/nodepool: bare}, tolerations: [{operator: Exists}], containers: [{name: c, image: i}]}",
	} {
		if err := c.Create(t.Context(), read("{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: "+name+"}, spec: "+pod+"}")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, patience, func() error {
		for _, name := range []string{"beta", "bare"} {
			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &pod); err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
			}
		}
		return nil
	})
	// Applying the manifest again changes nothing, and nobody else's fields are in its way.
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(read(bare)), client.FieldOwner("kubectl")); err != nil {
		t.Error(err)
	}
	var claims karpenterv1.NodeClaimList
	if err := c.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 2 {
		t.Errorf("there are %d NodeClaims, want 2", len(claims.Items))
	}
	for i := range claims.Items {
		nc := &claims.Items[i]
		pool := nc.Labels[karpenterv1.NodePoolLabelKey]
		want := map[string]string{"beta": "100h", "bare": "720h"}[pool]
		if ref := nc.Spec.NodeClassRef; nc.Spec.ExpireAfter.String() != want || ref.Kind != "KWOKNodeClass" || ref.Group != "karpenter.kwok.sh" {
			t.Errorf("the claim of %s expires after %s, want %s, and has class %+v", pool, nc.Spec.ExpireAfter, want, ref)
		}
		for _, condition := range nc.Status.Conditions {
			if condition.Type == karpenterv1.ConditionTypeDrifted {
				t.Errorf("the claim of %s has drifted: %s", pool, condition.Reason)
			}
		}
	}
}
