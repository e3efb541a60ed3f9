package charttest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRightsAreTheControllers compares what the chart allows its ServiceAccount with the manifests in
// deploy/kubernetes, right for right. The reason of each is in docs/reference/rights.md, which another test
// compares with the same manifests.
func TestRightsAreTheControllers(t *testing.T) {
	t.Parallel()
	type set = map[string]any
	for name, c := range map[string]struct {
		values  set
		files   []string
		without string // rights with this text are left out
		account string // in the files
	}{
		"as it comes":            {nil, []string{"rbac.yaml"}, "", "dovetail"},
		"devices":                {set{"settings": set{"ignoreDRARequests": false}}, []string{"rbac.yaml", "optional/dra.yaml"}, "", "dovetail"},
		"scheduler's defaults":   {set{"settings": set{"schedulerConfig": "/c"}}, []string{"rbac.yaml", "optional/scheduler-config.yaml"}, "", "dovetail"},
		"pods are ranked":        {set{"settings": set{"featureGates": set{"podDeletionCostManagement": true}}}, []string{"rbac.yaml", "gates/pod-deletion-cost.yaml"}, "", "dovetail"},
		"pods are not nominated": {set{"settings": set{"nominatePods": false}}, []string{"rbac.yaml"}, " pods/status.", "dovetail"},
		"kwok":                   {set{"provider": "kwok"}, []string{"rbac.yaml", "providers/kwok.yaml"}, "karpenter.k8s.aws", "dovetail"},
		"observing":              {set{"settings": set{"mode": "observe"}}, []string{"observe/rbac.yaml"}, "", "dovetail-observe"},
		"observing, by env":      {set{"controller": set{"env": []any{set{"name": "MODE", "value": "observe"}}}}, []string{"observe/rbac.yaml"}, "", "dovetail-observe"},
		"kwok and remote":        {set{"provider": "kwok,remote", "settings": set{"providerAddress": "unix:///p"}}, []string{"rbac.yaml", "providers/kwok.yaml"}, "karpenter.k8s.aws", "dovetail"},
		"aws and kwok":           {set{"provider": "aws,kwok"}, []string{"rbac.yaml", "providers/kwok.yaml"}, "", "dovetail"},
		"clusterapi":             {set{"provider": "clusterapi", "settings": set{"clusterAPINamespace": "default"}}, []string{"rbac.yaml", "providers/clusterapi.yaml"}, "karpenter.k8s.aws", "dovetail"},
	} {
		if c.values == nil {
			c.values = set{}
		}
		settings, _ := c.values["settings"].(set)
		if settings == nil {
			settings = set{}
			c.values["settings"] = settings
		}
		settings["clusterName"] = "demo"
		out, err := Render(mainDir, Input{Values: c.values})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := rights(t, out.Objects, "karpenter")
		var manifests []*unstructured.Unstructured
		for _, file := range c.files {
			manifests = append(manifests, manifest(t, filepath.Join(root, "deploy", "kubernetes", file))...)
		}
		want := slices.DeleteFunc(rights(t, manifests, c.account), func(r string) bool { return c.without != "" && strings.Contains(r, c.without) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-deploy/kubernetes +chart):\n%s", name, diff)
		}
		for _, r := range got { // a lease of its own is all that an observer writes
			write := slices.ContainsFunc([]string{"create", "update", "patch", "delete"}, func(verb string) bool { return strings.Contains(r, ": "+verb) })
			if c.account == "dovetail-observe" && write && r != "kube-system: create leases.coordination.k8s.io " && r != "kube-system: update leases.coordination.k8s.io karpenter-leader-election-observe" {
				t.Errorf("%s: it may %s", name, r)
			}
		}
		if len(got) < 20 {
			t.Errorf("%s: only %d rights", name, len(got))
		}
	}
}

func manifest(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := output(map[string]string{file: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Objects
}

// rights returns what bindings give a ServiceAccount of kube-system: scope, verb, resource and name, a line
// each.
func rights(t *testing.T, objects []*unstructured.Unstructured, account string) []string {
	t.Helper()
	roles := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		roles[Key(o)] = o
	}
	var out []string
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") {
			continue
		}
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		if want := []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}}; err != nil || !cmp.Equal(want, subjects) {
			t.Errorf("%s binds %v: %v", Key(o), subjects, err)
		}
		of, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		key := strings.Replace(Key(o), "Binding", "", 1)
		key = key[:strings.LastIndex(key, o.GetName())] + of
		role := roles[key]
		if role == nil {
			t.Fatalf("%s binds %s, which is not there", Key(o), key)
		}
		scope := "cluster"
		if o.GetNamespace() != "" {
			scope = o.GetNamespace()
		}
		text, err := yaml.Marshal(role.Object["rules"])
		if err != nil {
			t.Fatal(err)
		}
		var rules []struct{ Verbs, APIGroups, Resources, ResourceNames []string }
		if err := yaml.UnmarshalStrict(text, &rules); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		for _, r := range rules {
			if len(r.ResourceNames) == 0 {
				r.ResourceNames = []string{""}
			}
			for _, verb := range r.Verbs {
				for _, group := range r.APIGroups {
					for _, resource := range r.Resources {
						for _, name := range r.ResourceNames {
							out = append(out, fmt.Sprintf("%s: %s %s.%s %s", scope, verb, resource, group, name))
						}
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestDefinitions renders karpenter-crd: the kinds of the provider, each as config/crd has it but for
// labels and annotations.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string][]string{
		"aws":        {"capacitybuffers.autoscaling.x-k8s.io", "ec2nodeclasses.karpenter.k8s.aws", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh"},
		"clusterapi": {"capacitybuffers.autoscaling.x-k8s.io", "clusterapinodeclasses.karpenter.cluster.x-k8s.io", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh"},
		"aws,kwok":   {"capacitybuffers.autoscaling.x-k8s.io", "ec2nodeclasses.karpenter.k8s.aws", "kwoknodeclasses.karpenter.kwok.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh"},
		"kwok":       {"capacitybuffers.autoscaling.x-k8s.io", "kwoknodeclasses.karpenter.kwok.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh"},
	} {
		out, err := Render(crdDir, Input{Values: map[string]any{
			"provider": provider, "additionalAnnotations": map[string]any{"a": "b"}, "additionalLabels": map[string]any{"c": "d"},
			"webhook": map[string]any{"enabled": true, "serviceName": "karpenter"}, // of Karpenter 1.0
		}})
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(root + "/config/crd/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		original := map[string]*unstructured.Unstructured{}
		for _, file := range files {
			for _, o := range manifest(t, file) {
				original[o.GetName()] = o
			}
		}
		var got []string
		for _, o := range out.Objects {
			got = append(got, o.GetName())
			if a := o.GetAnnotations(); a["a"] != "b" || a["helm.sh/resource-policy"] != "keep" || a["controller-gen.kubebuilder.io/version"] == "" {
				t.Errorf("%s has the annotations %v", o.GetName(), a)
			}
			if l := o.GetLabels(); l["c"] != "d" || l["app.kubernetes.io/managed-by"] != "Helm" {
				t.Errorf("%s has the labels %v", o.GetName(), l)
			}
			if diff := cmp.Diff(original[o.GetName()].Object["spec"], o.Object["spec"]); diff != "" {
				t.Errorf("%s (-config/crd +chart):\n%s", o.GetName(), diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
	}
	if _, err := Render(crdDir, Input{Values: map[string]any{"keeep": true}}); err == nil {
		t.Error("an unknown value is taken")
	}
	out, err := Render(crdDir, Input{Values: map[string]any{"keep": false}})
	if err != nil || out.Objects[0].GetAnnotations()["helm.sh/resource-policy"] != "" {
		t.Errorf("without keep: %v", err)
	}
	out, err = Render(crdDir, Input{Values: map[string]any{"legacyAPIs": true}})
	if err != nil || out.Find("CustomResourceDefinition provisioners.karpenter.sh") == nil || out.Find("CustomResourceDefinition awsnodetemplates.karpenter.k8s.aws") == nil {
		t.Errorf("with legacyAPIs: %v", err)
	}
}
