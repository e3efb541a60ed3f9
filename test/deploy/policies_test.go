package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/cli/demo"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// policies returns the objects of examples/policies by kind.
func policies(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	objects, err := demo.Manifests(os.DirFS(filepath.Join("..", "..", "examples", "policies")))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]*unstructured.Unstructured{}
	for _, o := range objects {
		kinds[o.GetKind()] = append(kinds[o.GetKind()], o)
	}
	return kinds
}

// TestPoliciesAreEnforced applies the policies that need only the API server: each refuses what it is for, with
// its message, and nothing else.
func TestPoliciesAreEnforced(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c, err := client.New(cluster.Config, client.Options{Scheme: operator.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := demo.Manifests(crd.Files())
	if err != nil {
		t.Fatal(err)
	}
	kinds := policies(t)
	for _, objects := range [][]*unstructured.Unstructured{definitions, kinds["ValidatingAdmissionPolicy"], kinds["ValidatingAdmissionPolicyBinding"]} {
		if err := demo.Apply(t.Context(), c, objects...); err != nil {
			t.Fatal(err)
		}
	}
	dry := client.NewDryRunClient(c)
	pod := func(requests corev1.ResourceList, annotations map[string]string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: annotations}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests}}},
		}}
	}
	pool := func(limits corev1.ResourceList) client.Object {
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: karpenterv1.NodePoolSpec{Limits: limits}}
		np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{}
		np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
		return np
	}
	both := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	for name, try := range map[string]struct {
		object client.Object
		want   string // empty: it is accepted
	}{
		"a pod without requests":                 {pod(nil, nil), "each container needs resources.requests"},
		"a pod with a request for cpu alone":     {pod(corev1.ResourceList{"cpu": both["cpu"]}, nil), "each container needs resources.requests"},
		"a pod with both":                        {pod(both, nil), ""},
		"a pod that keeps its node":              {pod(both, map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}), "karpenter.sh/do-not-disrupt is for namespaces"},
		"a NodePool without limits":              {pool(nil), "spec.limits.cpu is missing"},
		"a NodePool with a limit of memory only": {pool(corev1.ResourceList{"memory": both["memory"]}), "spec.limits.cpu is missing"},
		"a NodePool with a limit":                {pool(both), ""},
	} {
		// The API server takes policies in some time after they are created.
		testkit.Eventually(t, patience, func() error {
			err := dry.Create(t.Context(), try.object.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // it is of its own type
			if try.want == "" {
				return err
			}
			if err == nil || !strings.Contains(err.Error(), try.want) {
				return unexpected{name, err}
			}
			return nil
		})
	}
}

// unexpected is an answer of the API server that is not the one wanted.
type unexpected struct {
	what string
	err  error
}

func (u unexpected) Error() string {
	if u.err == nil {
		return u.what + " is accepted"
	}
	return u.what + ": " + u.err.Error()
}

// TestPoliciesOfOthersNameFieldsOfPods: what Kyverno's pattern asks for is a pod, strictly read; Gatekeeper's two
// objects belong together.
func TestPoliciesOfOthersNameFieldsOfPods(t *testing.T) {
	t.Parallel()
	kinds := policies(t)
	if len(kinds["ClusterPolicy"]) != 1 || len(kinds["ConstraintTemplate"]) != 1 || len(kinds["PodRequests"]) != 1 {
		t.Fatalf("there are other kinds: %v", kinds)
	}
	rules, _, err := unstructured.NestedSlice(kinds["ClusterPolicy"][0].Object, "spec", "rules")
	if err != nil {
		t.Fatal(err)
	}
	pattern, _, err := unstructured.NestedMap(rules[0].(map[string]any), "validate", "pattern") //nolint:forcetypeassert // a wrong type fails the test
	if err != nil {
		t.Fatal(err)
	}
	containers := pattern["spec"].(map[string]any)["containers"].([]any)                                  //nolint:forcetypeassert // likewise
	requests := containers[0].(map[string]any)["resources"].(map[string]any)["requests"].(map[string]any) //nolint:forcetypeassert // likewise
	for name, value := range requests {
		if value != "?*" {
			t.Errorf("Kyverno's pattern asks for %s = %v, not for any value", name, value)
		}
		requests[name] = "1"
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(pattern, &pod, true); err != nil {
		t.Errorf("Kyverno's pattern is no pod: %v", err)
	}
	if r := pod.Spec.Containers[0].Resources.Requests; r.Cpu().IsZero() || r.Memory().IsZero() {
		t.Errorf("Kyverno's pattern asks for %v", r)
	}
	template := kinds["ConstraintTemplate"][0]
	kind, _, _ := unstructured.NestedString(template.Object, "spec", "crd", "spec", "names", "kind")
	if kind != kinds["PodRequests"][0].GetKind() || template.GetName() != strings.ToLower(kind) {
		t.Errorf("Gatekeeper's template %s defines %q", template.GetName(), kind)
	}
	targets, _, _ := unstructured.NestedSlice(template.Object, "spec", "targets")
	rego, _ := targets[0].(map[string]any)["rego"].(string) //nolint:forcetypeassert // a wrong type fails the test
	for _, path := range []string{"input.review.object.spec.containers[_]", "container.resources.requests[resource]", `{"cpu", "memory"}`} {
		if !strings.Contains(rego, path) {
			t.Errorf("Gatekeeper's rego does not look at %s", path)
		}
	}
}
