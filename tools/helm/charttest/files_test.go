package charttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesAndDashboards renders a copy of the chart with a file of rules and a dashboard of its own: what is
// in rules/ and dashboards/ is taken as it is, templates of Prometheus and Grafana included.
func TestRulesAndDashboards(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "karpenter")
	if err := os.CopyFS(dir, os.DirFS(mainDir)); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"rules/zz-test.yaml":       "groups:\n  - name: test\n    rules:\n      - {alert: A, expr: up == 0, annotations: {summary: \"{{ $labels.job }} is down\"}}\n",
		"rules/legacy/zz-old.yaml": "groups:\n  - name: old\n    rules: [{record: a, expr: b}]\n",
		"dashboards/zz-test.json":  "{\"title\": \"{{reason}}\"}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := Input{APIs: []string{theAPIs}, Values: map[string]any{
		"settings":       map[string]any{"clusterName": "demo"},
		"prometheusRule": map[string]any{"enabled": true, "additionalLabels": map[string]any{"release": "prometheus"}},
		"dashboards":     map[string]any{"enabled": true, "labels": map[string]any{"grafana": "yes"}, "annotations": map[string]any{"folder": "Karpenter"}},
	}}
	out, err := Render(dir, in)
	if err != nil {
		t.Fatal(err)
	}
	rule := out.Find("PrometheusRule kube-system/karpenter")
	if rule == nil || rule.GetLabels()["release"] != "prometheus" {
		t.Fatalf("no PrometheusRule with the label: %v", rule)
	}
	groups := rule.Object["spec"].(map[string]any)["groups"].([]any)
	want := map[string]any{"name": "test", "rules": []any{map[string]any{"alert": "A", "expr": "up == 0", "annotations": map[string]any{"summary": "{{ $labels.job }} is down"}}}}
	if diff := cmp.Diff(want, groups[len(groups)-1]); diff != "" {
		t.Errorf("PrometheusRule (-want +got):\n%s", diff)
	}
	in.Values["prometheusRule"].(map[string]any)["legacyNames"] = true
	if out, err = Render(dir, in); err != nil {
		t.Fatal(err)
	}
	groups = out.Find("PrometheusRule kube-system/karpenter").Object["spec"].(map[string]any)["groups"].([]any)
	if last := groups[len(groups)-1].(map[string]any)["name"]; last != "old" {
		t.Errorf("with legacyNames the last group is %v, want old", last)
	}
	board := out.Find("ConfigMap kube-system/karpenter-dashboard-zz-test")
	if board == nil || board.GetLabels()["grafana"] != "yes" || board.GetLabels()["grafana_dashboard"] != "1" || board.GetAnnotations()["folder"] != "Karpenter" {
		t.Fatalf("no ConfigMap with the labels: %v", board)
	}
	if diff := cmp.Diff(map[string]any{"zz-test.json": "{\"title\": \"{{reason}}\"}\n"}, board.Object["data"]); diff != "" {
		t.Errorf("ConfigMap (-want +got):\n%s", diff)
	}
	in.APIs = nil
	if out, err = Render(dir, in); err != nil || out.Find("PrometheusRule kube-system/karpenter") != nil {
		t.Errorf("a PrometheusRule for a cluster without the API: %v", err)
	}
}
