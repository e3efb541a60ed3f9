package convert

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"
)

func options(t testing.TB, ignoreDefaults bool, role string) Options {
	kind, ok := ClassKind("aws")
	if !ok {
		t.Fatal("no kind of node class")
	}
	return Options{Class: kind, IgnoreDefaults: ignoreDefaults, NodeRole: role}
}

// converted returns the objects as YAML, and the notes.
func converted(result Result) string {
	var out strings.Builder
	for _, o := range result.Objects {
		text, err := yaml.Marshal(o.Content)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	for _, n := range result.Notes {
		fmt.Fprintf(&out, "! %s\n", n)
	}
	return out.String()
}

// TestConvert runs the files of testdata/manifests: a manifest, and what it is in v1. Directive "convert" takes
// ignore-defaults and role=NAME, "scan" lists what "convert" would rename.
func TestConvert(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/manifests", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			objects, err := Read("file.yaml", []byte(d.Input))
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			if d.Cmd == "scan" {
				var out strings.Builder
				for i := range objects {
					for _, n := range Scan(&objects[i]) {
						fmt.Fprintln(&out, n)
					}
				}
				return out.String()
			}
			var role string
			d.MaybeScanArgs(t, "role", &role)
			result, err := All(objects, options(t, d.HasArg("ignore-defaults"), role))
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			again, err := All(result.Objects, options(t, true, ""))
			if err != nil {
				t.Fatalf("%s: what was converted is not converted again: %v", d.Pos, err)
			}
			if first, second := converted(Result{Objects: result.Objects}), converted(Result{Objects: again.Objects}); first != second {
				t.Errorf("%s: converted again it is\n%s", d.Pos, second)
			}
			return converted(result)
		})
	})
}

// FuzzConvert converts anything: it returns an error or objects that are v1 and stay as they are.
func FuzzConvert(f *testing.F) {
	files, err := os.ReadDir("testdata/manifests")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		text, err := os.ReadFile("testdata/manifests/" + file.Name())
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n----\n") {
			if _, manifest, ok := strings.Cut(block, "convert\n"); ok {
				f.Add(manifest)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Read("file", []byte(text))
		if err != nil {
			return
		}
		before := converted(Result{Objects: objects})
		result, err := All(objects, options(t, false, ""))
		if after := converted(Result{Objects: objects}); before != after {
			t.Errorf("All() has changed what it was given from\n%s\nto\n%s", before, after)
		}
		if err != nil {
			return
		}
		for _, o := range result.Objects {
			switch version := text2(o); version {
			case "karpenter.sh/v1beta1", "karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1alpha1":
				if kind := o.Content["kind"]; kind == "NodePool" || kind == "NodeClaim" || kind == "EC2NodeClass" || kind == "Provisioner" || kind == "Machine" {
					t.Errorf("%s is still of %s", o.String(), version)
				}
			}
		}
		again, err := All(result.Objects, options(t, true, ""))
		if err != nil {
			t.Fatalf("what was converted is not converted again: %v", err)
		}
		if first, second := converted(Result{Objects: result.Objects}), converted(Result{Objects: again.Objects}); first != second {
			t.Errorf("converted once:\n%s\ntwice:\n%s", first, second)
		}
	})
}

func text2(o Object) string { return text(o.Content["apiVersion"]) }
