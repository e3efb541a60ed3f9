package kubelets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stageHead = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %NAME}\nspec:\n  resourceRef: {apiGroup: v1, kind: Pod}\n"

func stageFile(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func podStages(t *testing.T, dir string) map[string]bool {
	t.Helper()
	byKind, err := loadStages(dir)
	if err != nil {
		t.Fatalf("loadStages: %v", err)
	}
	immediate := map[string]bool{}
	for ref, list := range byKind {
		for _, s := range list {
			if ref.Kind == "Pod" {
				immediate[s.Name] = s.Spec.Delay == nil
			}
		}
	}
	return immediate
}

func TestOwnStagesOverlayThoseOfKWOK(t *testing.T) {
	t.Parallel()
	got := podStages(t, "")
	for _, name := range []string{"pod-ready", "pod-complete", "pod-delete", "pod-unhealthy"} {
		if _, ok := got[name]; !ok {
			t.Errorf("no stage %s", name)
		}
	}
	if len(got) != 4 || got["pod-delete"] {
		t.Errorf("pod stages, true for immediate: %v; want four, pod-delete with a delay", got)
	}
}

func TestStagesOfADirectoryReplaceByNameAndAdd(t *testing.T) {
	t.Parallel()
	both := strings.ReplaceAll(stageHead, "%NAME", "pod-delete") + "---\n" + strings.ReplaceAll(stageHead, "%NAME", "pod-late")
	got := podStages(t, stageFile(t, both))
	if _, ok := got["pod-late"]; !ok || len(got) != 5 || !got["pod-delete"] {
		t.Errorf("pod stages, true for immediate: %v; want pod-late added and pod-delete immediate", got)
	}
}

func TestBadStageFileIsNamed(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"not YAML":        "a: [",
		"of another kind": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
		"without a name":  strings.ReplaceAll(stageHead, "%NAME", `""`),
	} {
		if _, err := loadStages(stageFile(t, content)); err == nil || !strings.Contains(err.Error(), "s.yaml") {
			t.Errorf("%s: got %v, want an error that names s.yaml", name, err)
		}
	}
	if _, err := loadStages(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no *.yaml") {
		t.Errorf("empty directory: got %v", err)
	}
}
