package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cli/doctor"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestMigrateDefinitions has NodePools stored as v1beta1, has the definition ask a webhook that is gone,
// and has a webhook judge writes, as earlier installations leave it. It then asks the doctor, does what
// the doctor says, and removes v1beta1 from the definition.
func TestMigrateDefinitions(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	if err := install(cluster.Config); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	pools := client.Resource(nodePool.resource)
	edit := func(change func(spec map[string]any)) {
		t.Helper()
		u, err := definitions.Get(t.Context(), "nodepools.karpenter.sh", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(u.Object["spec"].(map[string]any))
		if _, err := definitions.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	store := func(spec map[string]any, version string) {
		for _, v := range spec["versions"].([]any) {
			v.(map[string]any)["storage"] = v.(map[string]any)["name"] == version
		}
	}
	edit(func(spec map[string]any) { store(spec, "v1beta1") })
	for _, name := range []string{"a", "b"} {
		u := nodePool.object(t, name)
		u.SetAPIVersion("karpenter.sh/v1beta1")
		testkit.Eventually(t, time.Minute, func() error {
			_, err := client.Resource(nodePool.resource.GroupResource().WithVersion("v1beta1")).Create(t.Context(), u, metav1.CreateOptions{})
			return err
		})
	}
	edit(func(spec map[string]any) {
		store(spec, "v1")
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1beta1", "v1"},
			"clientConfig":             map[string]any{"service": map[string]any{"name": "karpenter", "namespace": "kube-system", "port": int64(8443), "path": "/conversion/karpenter.sh"}},
		}}
	})
	hook := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validation.webhook.karpenter.sh}
webhooks:
- name: validation.webhook.karpenter.sh
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: karpenter, namespace: kube-system}}
  rules: [{apiGroups: [karpenter.sh], apiVersions: [v1beta1], operations: [CREATE], resources: [nodepools]}]
`), &hook.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}).Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error { // the definition has come into force when reads fail
		if _, err := pools.List(t.Context(), metav1.ListOptions{}); err == nil {
			return errors.New("pools can still be read")
		}
		return nil
	})
	findings := func() map[string]string {
		found := map[string]string{}
		for _, f := range doctor.Cluster(t.Context(), cluster.Config, []string{"aws"}, time.Now()) {
			if f.Status != checkup.OK || f.Check == "earlier installations" {
				found[f.Check] = string(f.Status) + " -> " + f.Remedy
			}
		}
		return found
	}
	if diff := cmp.Diff(map[string]string{
		"conversion of NodePool":                  string(checkup.Failed) + " -> dovetail migrate crds",
		"stored versions of NodePool":             string(checkup.Warning) + " -> dovetail migrate crds",
		"webhook validation.webhook.karpenter.sh": string(checkup.Warning) + " -> kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh",
	}, findings()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	var lines []string
	testkit.Eventually(t, time.Minute, func() error { // reads fail until the webhook is out of force
		lines = nil
		return doctor.Migrate(t.Context(), cluster.Config, func(line string) { lines = append(lines, line) })
	})
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "nodepools.karpenter.sh: 2 objects written anew, stored as v1 alone; was v1, v1beta1") &&
		!strings.Contains(text, "nodepools.karpenter.sh: 2 objects written anew, stored as v1 alone; was v1beta1, v1") {
		t.Errorf("Migrate() says\n%s", text)
	}
	if diff := cmp.Diff(map[string]string{
		"webhook validation.webhook.karpenter.sh": string(checkup.Warning) + " -> kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh",
	}, findings()); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	edit(func(spec map[string]any) { spec["versions"] = spec["versions"].([]any)[:1] })
	all, err := pools.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 2 {
		t.Errorf("without v1beta1 there are %d pools: %v", len(all.Items), err)
	}
}
