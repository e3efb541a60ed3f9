package api

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// TestDefinitionsTakeOverThoseOfHelm applies a definition as the documentation says over one that
// Helm has installed from Karpenter's chart.
func TestDefinitionsTakeOverThoseOfHelm(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(server(t))
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	all, err := crds()
	if err != nil {
		t.Fatal(err)
	}
	ours := all["karpenter.sh_nodepools.yaml"].DeepCopy()
	put(t, ours, "nodepools.takeover.example.com", "metadata", "name")
	put(t, ours, "takeover.example.com", "spec", "group")
	helms := ours.DeepCopy()
	put(t, helms, []any{"karpenter", "of-helm"}, "spec", "names", "categories")
	if _, err := definitions.Create(t.Context(), helms, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
		t.Fatal(err)
	}
	apply := func(force bool) error {
		_, err := definitions.Apply(t.Context(), ours.GetName(), ours, metav1.ApplyOptions{FieldManager: "kubectl", Force: force})
		return err
	}
	if err := apply(false); !apierrors.IsConflict(err) {
		t.Errorf("without --force-conflicts: %v, want a conflict with helm", err)
	}
	if err := apply(true); err != nil {
		t.Errorf("with --force-conflicts: %v", err)
	}
	now, err := definitions.Get(t.Context(), ours.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if categories, _, _ := unstructured.NestedStringSlice(now.Object, "spec", "names", "categories"); strings.Join(categories, " ") != "karpenter" {
		t.Errorf("the definition still has Helm's categories %v", categories)
	}
}

// TestTheCommandForDefinitionsForcesConflicts looks at each text that has the command.
func TestTheCommandForDefinitionsForcesConflicts(t *testing.T) {
	t.Parallel()
	reported := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" && filepath.Ext(path) != ".go" || filepath.Base(path) == "takeover_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "dovetail crds | kubectl apply -") {
				continue
			}
			if reported++; !strings.Contains(line, "kubectl apply --server-side --force-conflicts -f -") {
				t.Errorf("%s: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || reported < 5 {
		t.Errorf("the command stands in %d places, error %v", reported, err)
	}
}

func put(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}
