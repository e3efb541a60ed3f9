package charttest

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestValuesAreKarpenters compares the chart's values with testdata/karpenter.txt: names and defaults of
// Karpenter's chart 1.14.1, and why a default of ours is another.
func TestValuesAreKarpenters(t *testing.T) {
	t.Parallel()
	defaults, err := Defaults(mainDir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("testdata/karpenter.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		line, why, _ := strings.Cut(strings.TrimSpace(line), " # ")
		name, want, found := strings.Cut(line, " ")
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		var at any = defaults
		known := true
		for part := range strings.SplitSeq(name, ".") {
			m, ok := at.(map[string]any)
			at, known = m[part], known && ok
			if _, has := m[part]; !has {
				known = false
			}
		}
		if !known {
			t.Errorf("there is no value %s", name)
			continue
		}
		text, err := json.Marshal(at)
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(wanted, got); (diff != "") != (why != "") {
			t.Errorf("%s (-Karpenter's +ours; %q):\n%s", name, why, diff)
		}
	}
	if rows < 60 {
		t.Errorf("only %d values were compared", rows)
	}
}

// notByValue are the settings that no value sets, and why.
var notByValue = map[string]string{
	"CPU_REQUESTS":              "has no effect",
	"DISABLE_CONTROLLER_WARMUP": "has no effect",
	"KARPENTER_SERVICE":         "has no effect",
	"MEMORY_LIMIT":              "is the limit of the container",
}

// TestEverySettingHasAValue compares docs/reference/settings.md, which is compared with the controller's
// flags, with the environment variables that values set: none is missing, none is unknown to the
// controller, and the gates are those that it has.
func TestEverySettingHasAValue(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(root + "/docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--[a-z-]+` \\| `([A-Z_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(doc), -1) {
		known[row[1]] = strings.Trim(row[2], "` ")
	}
	if len(known) < 50 {
		t.Fatalf("only %d settings in docs/reference/settings.md", len(known))
	}
	defaults, err := Defaults(mainDir)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]any{}
	for name, v := range defaults["settings"].(map[string]any) {
		switch {
		case v == nil || v == "":
			settings[name] = "1"
		default:
			settings[name] = v
		}
	}
	for _, name := range []string{"replaceOnRebalance", "batchLaunchEarly", "nominatePods", "providerPlaintext", "clusterAPISkipTLSVerify", "legacyAPIs", "clusterAutoscalerAnnotations", "legacyNodeRepair", "enableProfiling", "disableLeaderElection", "pauseDisruption"} {
		settings[name] = true
	}
	settings["logFormat"], settings["mode"] = "console", "observe"
	for _, name := range []string{"expendablePodsPriorityCutoff", "consolidationSpotPools", "consolidationStepMax", "journalMemoryBytes", "journalDiskBytes", "debugPort", "kubeClientBurst", "kubeClientQPS"} {
		settings[name] = 1
	}
	set := map[string]string{}
	for _, provider := range []string{"remote", "clusterapi", "aws"} { // of which each has settings of its own
		out, err := Render(mainDir, Input{Values: map[string]any{"provider": provider, "settings": settings}})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(set, environment(t, out))
	}
	for name := range set {
		if _, ok := known[name]; !ok {
			t.Errorf("the chart sets %s, which the controller does not know", name)
		}
	}
	for name := range known {
		_, isSet := set[name]
		if why, excused := notByValue[name]; !isSet && !excused {
			t.Errorf("no value sets %s", name)
		} else if isSet && excused && name != "MEMORY_LIMIT" {
			t.Errorf("a value sets %s, which %s", name, why)
		}
	}
	for _, list := range []string{"FEATURE_GATES", "AWS_FEATURE_GATES"} {
		sorted := func(s string) []string { return slices.Sorted(strings.SplitSeq(s, ",")) }
		if diff := cmp.Diff(sorted(known[list]), sorted(set[list])); diff != "" {
			t.Errorf("%s (-the controller's default +the chart's):\n%s", list, diff)
		}
	}
}

// environment returns the controller's variables; those that are taken from elsewhere are empty.
func environment(t *testing.T, out Output) map[string]string {
	t.Helper()
	containers, found, err := unstructured.NestedSlice(out.Find("Deployment kube-system/karpenter").Object, "spec", "template", "spec", "containers")
	if err != nil || !found {
		t.Fatalf("no containers: %v", err)
	}
	env := map[string]string{}
	for _, e := range containers[0].(map[string]any)["env"].([]any) {
		e := e.(map[string]any)
		value, _ := e["value"].(string)
		if _, twice := env[e["name"].(string)]; twice {
			t.Errorf("%s is there twice", e["name"])
		}
		env[e["name"].(string)] = value
	}
	return env
}
