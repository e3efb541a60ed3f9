package charttest

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"helm.sh/helm/v4/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

const (
	root    = "../../.."
	charts  = root + "/deploy/charts"
	mainDir = charts + "/karpenter"
	crdDir  = charts + "/karpenter-crd"
	theAPIs = "monitoring.coreos.com/v1"
)

// TestValues runs the files in testdata/values: values, and what they change in the rendering. The
// commands:
//
//	render   what the values change, compared with settings.clusterName alone
//	refuse   the error
//	notes    the notes, from the first line on that starts with NOTE
//	whole    the whole rendering
//	names    the names of the objects
//	show     the objects of a kind
//
// Their values are YAML, as of a file; with "set", lines as of --set. "namespace=" and "release=" name the
// release, "monitoring" has the cluster serve Prometheus's kinds, "bare" leaves settings.clusterName out,
// "account=" has somebody's ServiceAccount be in the cluster. What is rendered is the same with Helm 3,
// which the test compares.
func TestValues(t *testing.T) {
	t.Parallel()
	base, err := Render(mainDir, Input{Values: map[string]any{"settings": map[string]any{"clusterName": "demo"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range caseFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				return answer(t, d, base)
			})
		})
	}
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}

// answer runs a case; base is the rendering that "render" compares with.
func answer(t *testing.T, d *datadriven.TestData, base Output) string {
	t.Helper()
	in := inputOf(t, d)
	out, err := Render(mainDir, in)
	switch {
	case d.Cmd == "refuse" && err == nil:
		return "not refused\n"
	case d.Cmd == "refuse":
		return plain(err) + "\n"
	case err != nil:
		return "error: " + plain(err) + "\n"
	}
	compareWith3(t, d, in, out)
	switch d.Cmd {
	case "render":
		text, err := Difference(base, out)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if text == "" {
			return "nothing\n"
		}
		return text
	case "notes":
		_, notes, found := strings.Cut(out.Notes, "NOTE: ")
		if !found {
			return "none\n"
		}
		notes, _, _ = strings.Cut(notes, "\n\nDefinitions:")
		return "NOTE: " + regexp.MustCompile(`\n\n+`).ReplaceAllString(notes, "\n") + "\n"
	case "whole":
		return texts(t, out, "")
	case "show":
		return texts(t, out, d.CmdArgs[0].Key)
	case "names":
		var names strings.Builder
		for _, o := range out.Objects {
			names.WriteString(Key(o) + "\n")
		}
		return names.String()
	}
	d.Fatalf(t, "no command %s", d.Cmd)
	return ""
}

// inputOf reads a case.
func inputOf(t *testing.T, d *datadriven.TestData) Input {
	t.Helper()
	in := Input{Values: map[string]any{}}
	var err error
	if d.HasArg("set") {
		for line := range strings.Lines(d.Input) {
			if err = strvals.ParseInto(strings.TrimSpace(line), in.Values); err != nil {
				break
			}
		}
	} else {
		err = yaml.Unmarshal([]byte(d.Input), &in.Values)
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if in.Values == nil {
		in.Values = map[string]any{}
	}
	if !d.HasArg("bare") {
		settings, _ := in.Values["settings"].(map[string]any)
		if settings == nil {
			settings = map[string]any{}
		}
		if settings["clusterName"] == nil {
			settings["clusterName"] = "demo"
		}
		in.Values["settings"] = settings
	}
	d.MaybeScanArgs(t, "namespace", &in.Namespace)
	d.MaybeScanArgs(t, "release", &in.Release)
	if d.HasArg("monitoring") {
		in.APIs = []string{theAPIs}
	}
	if d.HasArg("account") {
		var by string
		d.ScanArgs(t, "account", &by)
		in.Cluster = clusterWith(in, by)
	}
	return in
}

// lookups answers those of ServiceAccounts.
type lookups struct{ client dynamic.Interface }

func (l lookups) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return l.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}), true, nil
}

// clusterWith returns a cluster with the ServiceAccount that the release would make, as made by eksctl or,
// with "release", by an earlier revision.
func clusterWith(in Input, by string) lookups {
	o := in.options()
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Namespace: o.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": by}},
	}
	if by == "release" {
		account.Labels["app.kubernetes.io/managed-by"] = "Helm"
		account.Annotations = map[string]string{"meta.helm.sh/release-name": o.Name, "meta.helm.sh/release-namespace": o.Namespace}
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return lookups{fake.NewSimpleDynamicClient(scheme, account)}
}

// compareWith3 fails unless Helm 3 renders the same.
func compareWith3(t *testing.T, d *datadriven.TestData, in Input, out Output) {
	t.Helper()
	if in.Cluster != nil {
		return
	}
	three, err := Render3(mainDir, in)
	if err != nil {
		d.Fatalf(t, "Helm 3: %v", err)
	}
	if text, err := Difference(out, three); err != nil || text != "" {
		d.Fatalf(t, "Helm 3 renders otherwise: %v\n%s", err, text)
	}
}

// plain returns what the template says of an error, without where in the template.
func plain(err error) string {
	text := regexp.MustCompile(`(?s)^(execution error at|values don't meet).*?\n+`).ReplaceAllString(err.Error(), "")
	return strings.TrimSpace(text)
}

// texts returns the objects of a kind; empty: all.
func texts(t *testing.T, out Output, kind string) string {
	t.Helper()
	var text strings.Builder
	for _, o := range out.Objects {
		if kind != "" && o.GetKind() != kind {
			continue
		}
		y, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", y)
	}
	return text.String()
}

// TestEveryValueHasACase expects that each value of values.yaml is set by a case of testdata/values that it
// changes something in: no value is taken and does nothing.
func TestEveryValueHasACase(t *testing.T) {
	t.Parallel()
	defaults, err := Defaults(mainDir)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, file := range caseFiles(t) {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "render" && d.Expected != "nothing\n" {
				in := inputOf(t, d)
				paths := map[string]bool{}
				leaves("", in.Values, defaults, paths)
				delete(paths, "settings.clusterName")
				if strings.Contains(d.Input, "clusterName") {
					paths["settings.clusterName"] = true
				}
				maps.Copy(set, paths)
			}
			return d.Expected
		})
	}
	all := map[string]bool{}
	leaves("", defaults, defaults, all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !set[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("no case in testdata/values sets %s", name)
		}
	}
}

// leaves adds the paths of the values that are set, down to where the chart's own values end.
func leaves(prefix string, values any, defaults any, into map[string]bool) {
	m, isMap := values.(map[string]any)
	known, isObject := defaults.(map[string]any)
	if !isMap || !isObject || len(known) == 0 || slices.Contains(open, prefix) {
		into[prefix] = true
		return
	}
	for key, v := range m {
		leaves(strings.TrimPrefix(prefix+"."+key, "."), v, known[key], into)
	}
}

// elsewhere are the values that TestRulesAndDashboards sets; flowSchemas.enabled has an effect outside of
// kube-system only, which "names" shows.
var elsewhere = []string{"prometheusRule.enabled", "prometheusRule.legacyNames", "prometheusRule.additionalLabels", "dashboards.enabled", "dashboards.labels", "dashboards.annotations", "flowSchemas.enabled"}

// open are the values that are objects of any fields and have some by default.
var open = []string{"strategy", "podSecurityContext", "nodeSelector", "affinity", "dashboards.labels"}
