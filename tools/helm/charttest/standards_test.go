package charttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// unrestricted are the values with which a user leaves the profile "restricted", and what it then says.
var unrestricted = map[string]string{
	"hostNetwork: true":         "host namespaces (hostNetwork=true)",
	"initContainers: [{name":    `container "first" must set securityContext.allowPrivilegeEscalation=false`,
	"sidecarContainer: [{name:": `container "proxy" must set securityContext.allowPrivilegeEscalation=false`,
}

// TestRestricted has Kubernetes' own evaluator judge the pods of every case in testdata/values by the profile
// "restricted" of the pod security standards: only the values of unrestricted leave it.
func TestRestricted(t *testing.T) {
	t.Parallel()
	evaluator := newEvaluator(t)
	used := map[string]bool{}
	renderings := 0
	for _, file := range caseFiles(t) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			out, err := Render(mainDir, inputOf(t, d))
			if err != nil {
				return d.Expected // a refusal
			}
			renderings++
			var wants []string
			for value, want := range unrestricted {
				if strings.Contains(d.Input, value) {
					used[value] = true
					wants = append(wants, want)
				}
			}
			says := evaluator(t, out)
			for _, want := range wants {
				if !strings.Contains(says, want) {
					t.Errorf("%s: the profile says %q, want %q", d.Pos, says, want)
				}
			}
			if len(wants) == 0 && says != "" {
				t.Errorf("%s: the pods are not restricted: %s", d.Pos, says)
			}
			return d.Expected
		})
	}
	for value := range unrestricted {
		if !used[value] {
			t.Errorf("no case has %q", value)
		}
	}
	if renderings < 100 {
		t.Errorf("only %d renderings were judged", renderings)
	}
}

// TestUnrestrictedPodsAreFound takes each line of the container's and the pod's security context away: the profile
// misses those that it asks for.
func TestUnrestrictedPodsAreFound(t *testing.T) {
	t.Parallel()
	evaluator := newEvaluator(t)
	for field, want := range map[string]string{
		"runAsNonRoot": "runAsNonRoot != true", "allowPrivilegeEscalation": "allowPrivilegeEscalation != false", "capabilities": "unrestricted capabilities", "seccompProfile": "seccompProfile",
	} {
		out, err := Render(mainDir, Input{Values: map[string]any{"settings": map[string]any{"clusterName": "demo"}}})
		if err != nil {
			t.Fatal(err)
		}
		drop(out.Find("Deployment kube-system/karpenter").Object, field)
		if says := evaluator(t, out); !strings.Contains(says, want) {
			t.Errorf("without %s the profile says %q, want %q", field, says, want)
		}
	}
}

// drop removes all fields of a name.
func drop(value any, name string) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, name)
		for _, inner := range v {
			drop(inner, name)
		}
	case []any:
		for _, inner := range v {
			drop(inner, name)
		}
	}
}

// newEvaluator returns a function that says what the profile has against the pods of a rendering.
func newEvaluator(t *testing.T) func(*testing.T, Output) string {
	t.Helper()
	registry, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, out Output) string {
		t.Helper()
		var says []string
		for _, o := range out.Objects {
			template, has := o.Object["spec"].(map[string]any)
			if has {
				template, has = template["template"].(map[string]any)
			}
			if !has {
				continue
			}
			var pod corev1.PodTemplateSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &pod, true); err != nil {
				t.Fatalf("%s: %v", Key(o), err)
			}
			result := policy.AggregateCheckResults(registry.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				says = append(says, result.ForbiddenDetail())
			}
		}
		slices.Sort(says)
		return strings.Join(says, "\n")
	}
}
