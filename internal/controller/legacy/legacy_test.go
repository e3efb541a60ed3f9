package legacy_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/controller/legacy"
	"github.com/dovetail-sh/dovetail/internal/testkit/loops"
)

const (
	template = `
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec:
  instanceProfile: nodes
  subnetSelector: {karpenter.sh/discovery: demo}
  securityGroupSelector: {karpenter.sh/discovery: demo}
`
	provisioner = `
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  limits: {resources: {cpu: 100}}
  kubeletConfiguration: {maxPods: 20}
  ttlSecondsAfterEmpty: 30
  providerRef: {name: default}
`
)

// TestLegacy applies objects of the older kinds to a real API server.
func TestLegacy(t *testing.T) {
	t.Parallel()
	l := loops.New(t, time.Now)
	loop := &legacy.Loop{Client: l.Manager.GetClient(), Reader: l.Manager.GetAPIReader(), Class: awsv1.GroupVersion.WithKind("EC2NodeClass"), Now: time.Now, Metrics: l.Metrics, Log: l.Log}
	sweep := func() {
		t.Helper()
		if err := loop.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep() // without the definitions there is nothing to do
	definitions := t.TempDir()
	if err := os.CopyFS(definitions, crd.Legacy()); err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(l.Manager.GetConfig(), envtest.CRDInstallOptions{Paths: []string{definitions + "/legacy"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	create := func(manifest string) *unstructured.Unstructured {
		t.Helper()
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			t.Fatal(err)
		}
		if err := l.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	node, pool := create(template), create(provisioner)
	taken := create(strings.Replace(provisioner, "name: default}\nspec", "name: taken}\nspec", 1))
	refused := create("{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: launch}, spec: {launchTemplate: mine}}")
	roleless := create("{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: roleless}, spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}}")
	create("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: taken}, spec: {template: {spec: {requirements: []}}}}")
	sweep()
	sweep() // the second time changes nothing

	np := &karpenterv1.NodePool{}
	if err := l.Get(t.Context(), client.ObjectKey{Name: "default"}, np); err != nil {
		t.Fatal(err)
	}
	if np.Generation != 1 || np.Spec.Disruption.ConsolidateAfter.String() != "30s" || np.Spec.Template.Spec.ExpireAfter.String() != "Never" || string(np.Spec.Template.Spec.Kubelet.Raw) != `{"maxPods":20}` {
		t.Errorf("the NodePool is of generation %d and has spec %+v", np.Generation, np.Spec)
	}
	if owners := np.OwnerReferences; len(owners) != 1 || owners[0].UID != pool.GetUID() || np.Annotations[legacy.OriginAnnotation] != "provisioner/default" {
		t.Errorf("the NodePool has owners %v and annotations %v", owners, np.Annotations)
	}
	class := &awsv1.EC2NodeClass{}
	if err := l.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
		t.Fatal(err)
	}
	if class.Spec.AMISelectorTerms[0].Alias != "al2@latest" || *class.Spec.MetadataOptions.HTTPPutResponseHopLimit != 2 {
		t.Errorf("the EC2NodeClass has spec %+v", class.Spec)
	}
	want := map[string]string{
		"AWSNodeTemplate/default": "True Converted is EC2NodeClass default now", "Provisioner/default": "True Converted is NodePool default now",
		"Provisioner/taken":        "False NameTaken NodePool taken is there already, and was not made of this: it is what counts",
		"AWSNodeTemplate/launch":   "False Refused refused: spec.launchTemplate: v1 makes launch templates of its own: write what yours has into userData, blockDeviceMappings, metadataOptions and the selector terms",
		"AWSNodeTemplate/roleless": "False Unreadable spec.instanceProfile is not set: write an EC2NodeClass of that name with the role of the nodes, which dovetail convert --node-role prints",
	}
	got := map[string]string{}
	for _, u := range []*unstructured.Unstructured{node, pool, taken, refused, roleless} {
		if err := l.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		c, _ := conditions[0].(map[string]any)
		first, _, _ := strings.Cut(c["message"].(string), "\n")
		got[u.GetKind()+"/"+u.GetName()] = strings.Join([]string{c["status"].(string), c["reason"].(string), first}, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}

	// A change of the older object changes what was made of it.
	unstructured.RemoveNestedField(pool.Object, "spec", "limits")
	if err := l.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	sweep()
	if err := l.Get(t.Context(), client.ObjectKeyFromObject(np), np); err != nil || len(np.Spec.Limits) != 0 {
		t.Errorf("the NodePool has limits %v, want none: %v", np.Spec.Limits, err)
	}
}
