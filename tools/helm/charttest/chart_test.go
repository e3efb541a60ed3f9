package charttest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// TestLint runs Helm's linter, which warns of nothing.
func TestLint(t *testing.T) {
	t.Parallel()
	for dir, values := range map[string]map[string]any{mainDir: {"settings": map[string]any{"clusterName": "demo"}}, crdDir: {}} {
		for _, m := range lint.RunAll(dir, values, "kube-system").Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", dir, m)
			}
		}
	}
}

// TestRenderingIsTheSameEachTime renders twice: what is random or of the day would be a difference for
// ever to tools that compare.
func TestRenderingIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	in := Input{Values: map[string]any{
		"provider": "kwok", "networkPolicy": map[string]any{"enabled": true}, "specPolicy": map[string]any{"enabled": true},
		"serviceMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true}, "dashboards": map[string]any{"enabled": true},
	}, Namespace: "karpenter", APIs: []string{theAPIs}}
	first, err := Render(mainDir, in)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		again, err := Render(mainDir, in)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := Difference(first, again); err != nil || text != "" || first.Notes != again.Notes {
			t.Fatalf("otherwise: %v\n%s", err, text)
		}
	}
}

// TestTheChartsDigest renders a chart that was released with an image's digest.
func TestTheChartsDigest(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		image map[string]any
		want  string
	}{
		"the chart's own image":             {map[string]any{}, "ghcr.io/dovetail-sh/dovetail:0.1.0-dev@" + digest},
		"a mirror has the same":             {map[string]any{"repository": "mirror/dovetail"}, "mirror/dovetail:0.1.0-dev@" + digest},
		"another tag is another image":      {map[string]any{"tag": "9"}, "ghcr.io/dovetail-sh/dovetail:9"},
		"a digest of one's own counts most": {map[string]any{"digest": "sha256:" + strings.Repeat("1", 64)}, "ghcr.io/dovetail-sh/dovetail:0.1.0-dev@sha256:" + strings.Repeat("1", 64)},
	} {
		out, err := Render(mainDir, Input{
			Values:      map[string]any{"settings": map[string]any{"clusterName": "demo"}, "controller": map[string]any{"image": c.image}},
			Annotations: map[string]string{"dovetail.sh/image-digest": digest},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fields := map[string]string{}
		flatten("", out.Find("Deployment kube-system/karpenter").Object, fields)
		if got := strings.Trim(fields["spec.template.spec.containers[controller].image"], `"`); got != c.want {
			t.Errorf("%s: the image is %s, want %s", name, got, c.want)
		}
	}
}

// TestEveryEnvironmentVariableIsThereOnce gives the chart's own variables again.
func TestEveryEnvironmentVariableIsThereOnce(t *testing.T) {
	t.Parallel()
	values := map[string]any{"settings": map[string]any{"clusterName": "demo"}}
	before, err := Render(mainDir, Input{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var env []any
	names := slices.Sorted(maps.Keys(environment(t, before)))
	for _, name := range names {
		env = append(env, map[string]any{"name": name, "value": "1"})
	}
	values["controller"] = map[string]any{"env": env}
	after, err := Render(mainDir, Input{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range environment(t, after) {
		if value != "1" {
			t.Errorf("%s is %q, want that of controller.env", name, value)
		}
	}
	if got := slices.Sorted(maps.Keys(environment(t, after))); !slices.Equal(got, names) {
		t.Errorf("the variables are %v, want %v", got, names)
	}
}
