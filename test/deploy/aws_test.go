package deploy

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
)

var update = flag.Bool("update", false, "write the policies of deploy/ anew")

// nameMost is how long a role's name may be, and a rule's.
const nameMost = 64

// longest is the longest name of a cluster that the templates take.
var longest = strings.Repeat("c", 45)

func cloudFormationParams() policy.Params {
	return policy.Params{
		Partition: "${AWS::Partition}", Region: "${AWS::Region}", Account: "${AWS::AccountId}", Cluster: "${ClusterName}",
		NodeRole: "${NodeRole}", Queue: "${Queue.QueueName}",
	}
}

func terraformParams() policy.Params {
	return policy.Params{
		Partition: "${partition}", Region: "${region}", Account: "${account}", Cluster: "${cluster}", NodeRole: "${node_role}", Queue: "${queue}",
	}
}

// template is a CloudFormation template.
type template struct {
	Parameters map[string]any
	Resources  map[string]struct {
		Type       string
		Properties map[string]any
	}
	Outputs map[string]any
}

func readTemplate(t *testing.T) (parsed template, text string) {
	t.Helper()
	text = read(t, "cloudformation.yaml")
	if err := yaml.UnmarshalStrict([]byte(text), &struct {
		*template                             `json:",inline"`
		AWSTemplateFormatVersion, Description string
	}{template: &parsed}); err != nil {
		t.Fatal(err)
	}
	return parsed, text
}

func path(name string) string { return filepath.Join("..", "..", "deploy", "aws", name) }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil { //nolint:gosec // it is in the repository
		t.Fatal(err)
	}
}

func TestCloudFormationHasTheGeneratedPolicies(t *testing.T) {
	t.Parallel()
	if *update {
		writeTemplate(t)
	}
	parsed, _ := readTemplate(t)
	var attached []any
	for _, p := range policy.Policies(cloudFormationParams()) {
		document, _ := parsed.Resources[p.Name+"Policy"].Properties["PolicyDocument"].(map[string]any)
		text, _ := document["Fn::Sub"].(string)
		if diff := cmp.Diff(canonical(t, p.Document.JSON()), canonical(t, text)); diff != "" {
			t.Errorf("policy %s differs from the generated one; go test ./test/deploy -update (-want +got):\n%s", p.Name, diff)
		}
		attached = append(attached, map[string]any{"Ref": p.Name + "Policy"})
	}
	if diff := cmp.Diff(any(attached), parsed.Resources["ControllerRole"].Properties["ManagedPolicyArns"]); diff != "" {
		t.Errorf("policies of the controller's role (-want +got):\n%s", diff)
	}
}

// writeTemplate replaces what is between the marks of each policy.
func writeTemplate(t *testing.T) {
	t.Helper()
	text := read(t, "cloudformation.yaml")
	for _, p := range policy.Policies(cloudFormationParams()) {
		const indent = "\n          "
		block := "      PolicyDocument:\n        \"Fn::Sub\": |" + indent + strings.ReplaceAll(strings.TrimSpace(p.Document.JSON()), "\n", indent)
		begin, end := "      # generated: "+p.Name+"\n", "\n      # end"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			t.Fatalf("cloudformation.yaml has no %q with %q after it", begin, end)
		}
		text = before + begin + block + end + after
	}
	write(t, "cloudformation.yaml", text)
}

// canonical returns JSON in one form.
func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%v in %q", err, text)
	}
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestCloudFormationRefersToWhatThereIs follows every Ref, Fn::GetAtt and ${…}.
func TestCloudFormationRefersToWhatThereIs(t *testing.T) {
	t.Parallel()
	parsed, _ := readTemplate(t)
	known := func(name string) bool {
		name, _, _ = strings.Cut(name, ".")
		_, isParameter := parsed.Parameters[name]
		_, isResource := parsed.Resources[name]
		return isParameter || isResource || strings.HasPrefix(name, "AWS::")
	}
	var follow func(v any)
	follow = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				follow(e)
			}
		case map[string]any:
			for key, e := range v {
				var names []string
				switch key {
				case "Ref":
					names = append(names, fmt.Sprint(e))
				case "Fn::GetAtt":
					names = append(names, fmt.Sprint(e.([]any)[0]))
				case "Fn::Sub":
					for _, m := range regexp.MustCompile(`\$\{([^}]*)\}`).FindAllStringSubmatch(fmt.Sprint(e), -1) {
						names = append(names, m[1])
					}
				}
				for _, name := range names {
					if !known(name) {
						t.Errorf("the template refers to %s, which it does not have", name)
					}
				}
				follow(e)
			}
		}
	}
	for name, r := range parsed.Resources {
		if len(r.Properties) == 0 || r.Type == "" {
			t.Errorf("resource %s is empty", name)
		}
		follow(r.Properties)
	}
	follow(parsed.Outputs)
}

func TestTerraformHasTheGeneratedPolicies(t *testing.T) {
	t.Parallel()
	main := read(t, "terraform/main.tf")
	given := regexp.MustCompile(`(?m)^    (\w+) += `).FindAllStringSubmatch(between(t, main, "templatefile(", "})"), -1)
	for _, p := range policy.Policies(terraformParams()) {
		name := "terraform/policies/" + p.Name + ".json.tftpl"
		if *update {
			write(t, name, p.Document.JSON())
		}
		text := read(t, name)
		if diff := cmp.Diff(canonical(t, p.Document.JSON()), canonical(t, text)); diff != "" {
			t.Errorf("%s differs from the generated policy; go test ./test/deploy -update (-want +got):\n%s", name, diff)
		}
		if !strings.Contains(between(t, main, "policies = toset([", "])"), `"`+p.Name+`"`) {
			t.Errorf("main.tf does not attach policy %s", p.Name)
		}
		for _, m := range regexp.MustCompile(`\$\{([^}]*)\}`).FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(given, func(g []string) bool { return g[1] == m[1] }) {
				t.Errorf("%s wants %s, which main.tf does not give", name, m[1])
			}
		}
	}
}

// between returns the text between two marks.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin)
	inside, _, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("there is no %q with %q after it", begin, end)
	}
	return inside
}

// TestNoticesReachTheQueue: both send what the provider understands, and nothing else.
func TestNoticesReachTheQueue(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(filepath.Join("..", "..", "internal", "cloud", "aws", "notices.go"))
	if err != nil {
		t.Fatal(err)
	}
	detailType := regexp.MustCompile(`"((?:EC2|AWS Health) [A-Z][^"]+)"`)
	understood := found(detailType, string(code))
	parsed, _ := readTemplate(t)
	var sent []string
	for name, r := range parsed.Resources {
		if r.Type != "AWS::Events::Rule" {
			continue
		}
		pattern, _ := r.Properties["EventPattern"].(map[string]any)
		types, _ := pattern["detail-type"].([]any)
		sent = append(sent, fmt.Sprint(types...))
		target := fmt.Sprint(r.Properties["Targets"])
		if !strings.Contains(target, "Queue Arn") {
			t.Errorf("rule %s sends to %s", name, target)
		}
	}
	slices.Sort(sent)
	if diff := cmp.Diff(understood, sent); diff != "" {
		t.Errorf("CloudFormation (-understood +sent):\n%s", diff)
	}
	if diff := cmp.Diff(understood, found(detailType, read(t, "terraform/main.tf"))); diff != "" {
		t.Errorf("Terraform (-understood +sent):\n%s", diff)
	}
}

func found(pattern *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestEverythingFits: a cluster with the longest name has policies that are not too large,
// and roles and rules whose names are not too long.
func TestEverythingFits(t *testing.T) {
	t.Parallel()
	for _, p := range policy.Policies(policy.Params{
		Partition: "aws-us-gov", Region: "ap-southeast-2", Account: "111122223333", Cluster: longest, NodeRole: longest, Queue: longest,
	}) {
		if size := p.Document.Size(); size > policy.DocumentMost {
			t.Errorf("policy %s has %d characters, more than %d", p.Name, size, policy.DocumentMost)
		}
	}
	parsed, text := readTemplate(t)
	for name, r := range parsed.Resources {
		for _, key := range []string{"RoleName", "Name"} {
			sub, _ := r.Properties[key].(map[string]any)
			if full := strings.ReplaceAll(fmt.Sprint(sub["Fn::Sub"]), "${ClusterName}", longest); len(full) > nameMost {
				t.Errorf("%s of %s has %d characters: %s", key, name, len(full), full)
			}
		}
	}
	for _, limit := range []string{text, read(t, "terraform/main.tf")} {
		if !strings.Contains(limit, fmt.Sprintf("[0-9A-Za-z][0-9A-Za-z_-]{0,%d}", len(longest)-1)) {
			t.Errorf("names of clusters may be longer than %d characters", len(longest))
		}
	}
}
