package kubelets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
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

// TestHeartbeatKeepsConditions: a Node that is ill and Ready stays so over heartbeats, and since when.
func TestHeartbeatKeepsConditions(t *testing.T) {
	t.Parallel()
	byKind, err := loadStages("")
	if err != nil {
		t.Fatal(err)
	}
	template := ""
	for ref, list := range byKind {
		for _, s := range list {
			if ref.Kind != "Node" || s.Name != "node-heartbeat-with-lease" {
				continue
			}
			if s.Spec.Delay == nil || *s.Spec.Delay.DurationMilliseconds != 600_000 || *s.Spec.Delay.JitterDurationMilliseconds != 610_000 {
				t.Errorf("heartbeats are %+v apart, want ten minutes", s.Spec.Delay)
			}
			template = s.Spec.Steps[0].Patch.Template
		}
	}
	since := metav1.NewTime(time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC))
	want := []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "it is", LastTransitionTime: metav1.NewTime(since.Add(-time.Hour))},
		{Type: "KWOKUnhealthy", Status: corev1.ConditionTrue, Reason: "E2ETest", LastTransitionTime: since},
		{Type: "KWOKRebootRequired", Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since.Add(time.Minute))},
	}
	out, err := gotpl.NewRenderer(nil).ToJSON(template, &corev1.Node{Status: corev1.NodeStatus{Conditions: want}})
	if err != nil {
		t.Fatalf("%q: %v", template, err)
	}
	var got corev1.NodeStatus
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Conditions) != len(want) {
		t.Fatalf("conditions %+v, want %+v", got.Conditions, want)
	}
	for i := range got.Conditions {
		c := got.Conditions[i]
		if c.LastHeartbeatTime.IsZero() || !c.LastTransitionTime.Equal(&want[i].LastTransitionTime) {
			t.Errorf("%s: heartbeat %v, transition %v, want %v", c.Type, c.LastHeartbeatTime, c.LastTransitionTime, want[i].LastTransitionTime)
		}
		if c.Type != want[i].Type || c.Status != want[i].Status || c.Reason != want[i].Reason || c.Message != want[i].Message {
			t.Errorf("condition %+v, want %+v", c, want[i])
		}
	}
}
