package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// everywhere lists words that the glossary lets stand in certain phrases only, all of which
// are in allowedPhrases. They are refused in sentences too.
var everywhere = []string{"flight", "lot", "machine", "quiet", "spotpools", "tidy", "vain"}

// allowedPhrases lists where a retired word is right.
var allowedPhrases = []string{
	"a lot",
	"amazon machine image",
	"consolidation spot pools", // a flag, its environment variable and its setting
	"in flight",
	"in vain",
	"machine id", // a field of a Node's status
	"machine readable",
	"mod tidy", // a command of go
	"state machine",
	"user home dir", // a function of the standard library
	"virtual machine",
}

// allowedTexts strikes out what has a retired word in it and is right as it is written.
var allowedTexts = strings.NewReplacer(
	"quiet_for", "", // a key of log lines that users have
)

// foreign lists, by file or directory, the retired words that others' formats have: names of fields in records
// which older versions wrote, a kind of v1alpha5 and its metrics, a value of EC2's, and the kind
// Machine of Cluster API with what is named after it.
var foreign = map[string][]string{
	"api/clusterapi/v1alpha1":                              {"machine"},
	"internal/cloud/clusterapi":                            {"machine"},
	"internal/cloud/clusterapi/capacity.go":                {"guest"}, // a field of KubeVirt's
	"internal/testkit/capi":                                {"machine"},
	"internal/cloud/clusterapi/catalog_test.go":            {"machine", "guest"}, // a field of KubeVirt's
	"internal/cli/clusterapi.go":                           {"machine"},
	"internal/cli/clusterapi_test.go":                      {"machine"},
	"internal/cli/savings":                                 {"machine"}, // replicas of MachineDeployments
	"internal/cli/savings.go":                              {"machine"},
	"internal/cli/doctor/clusterapi.go":                    {"machine"},
	"internal/cli/doctor/clusterapi_test.go":               {"machine"},
	"test/e2e/clusterapi_test.go":                          {"machine"},
	"test/providers/clusterapi_test.go":                    {"machine"},
	"deploy/kubernetes/providers/clusterapi.yaml":          {"machine"},
	"deploy/charts/karpenter/files/rights/clusterapi.yaml": {"machine"},
	"docs/reference/rights.md":                             {"machine"},
	"docs/clusterapi.md":                                   {"machine"},
	"docs/reference/doctor.md":                             {"machine"},
	"docs/reference/api.md":                                {"machine"}, // MachineDeployment
	"docs/reference/conditions.md":                         {"machine"},
	"internal/decision/redact/words.txt":                   {"guard", "initialised", "machine", "notyetquiet", "quiet", "resting", "settle", "shape", "shun", "spotpools", "wish"},
	"internal/decision/record/older.go":                    {"guard", "initialised", "machine", "notyetquiet", "quiet", "resting", "settle", "shape", "shun", "spotpools", "wish"},
	"internal/decision/record/record_test.go":              {"machine", "resting", "shape"},
	"internal/convert/alpha.go":                            {"machine"},
	"internal/convert/convert.go":                          {"machine"},
	"internal/convert/convert_test.go":                     {"machine"},
	"internal/cli/convert.go":                              {"machine"},
	"docs/reference/cli.md":                                {"machine"},
	"docs/reference/conversion.md":                         {"machine"},
	"internal/sim/awssim/image.go":                         {"machine"},
	"deploy/charts/karpenter/rules/legacy/names.yaml":      {"machine"},
	"docs/observe.md":                                      {"machine"},
	"tools/prometheus/testdata/not-recorded.txt":           {"machine"},
}

// oneMeaningOnly lists words that are retired in one of their meanings and right in another
// even as the name of something in code. No test can tell these apart: it is for a reviewer
// to judge.
var oneMeaningOnly = map[string]string{
	"class":     "NodeClass, StorageClass, PriorityClass",
	"closed":    "a budget's window, a file, a channel",
	"goal":      "the aim of a measurement",
	"held":      "a lease, a lock",
	"ledger":    "the record of launches in cloud/aws",
	"marked":    "by a label or an annotation",
	"odds":      "the likelihood of a fault",
	"order":     "a sequence",
	"pass":      "iam:PassRole, a test that passes",
	"place":     "to place a pod",
	"placement": "the subject: where pods may go",
	"rest":      "what remains, and client-go's package",
	"step":      "of a procedure, and names that users have",
	"terms":     "of an affinity or a selector",
	"verdict":   "why the answer is no",
}

// term is a retired word: one or more words that follow each other, or, where it has
// signs in it, the text itself.
type term struct {
	name      string
	words     []string
	text      string
	namesOnly bool
}

// glossary returns the retired words: what stands in backticks in the first column of the
// tables below the heading that contains "Retired". Where a third column says how a word is
// still right, it is refused as the name of something in code, and allowed in sentences.
func glossary(text string) (terms []term) {
	within := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			within = strings.Contains(line, "Retired")
		}
		cells := strings.Split(line, "|")
		if !within || len(cells) < 4 {
			continue
		}
		for _, word := range quoted(cells[1]) {
			t := term{name: strings.ReplaceAll(strings.ToLower(word), " ", "-"), words: split(word)}
			if oneMeaningOnly[t.name] != "" {
				continue
			}
			if strings.ContainsAny(word, "/0123456789") || strings.HasPrefix(word, "-") {
				t.words, t.text = nil, word
			}
			t.namesOnly = strings.TrimSpace(cells[3]) != "" && !slices.Contains(everywhere, t.name)
			terms = append(terms, t)
		}
	}
	return terms
}

// TestRetiredWords refuses the words that docs/glossary.md retires: in the names that Go
// files declare, in names of files, in comments, strings and documents.
func TestRetiredWords(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	terms := glossary(string(text))
	if len(terms) == 0 {
		t.Fatal("docs/glossary.md has no table of words under a heading with Retired in it")
	}
	for _, f := range texts(t) {
		for _, u := range f.uses(terms) {
			t.Errorf("%s:%d: %q is retired; docs/glossary.md says what to write instead", f.path, u.line, u.word)
		}
	}
}

func TestGlossary(t *testing.T) {
	t.Parallel()
	terms := glossary("# A\n| `no` | x |\n## Retired words\n| retired | use | still right |\n|---|---|---|\n| `machine`, `inTurn` | `node` | state machine |\n| `open claim` | x | |\n| `kplan/1` | x | |\n| `home` | x | a directory |\n")
	var names []string
	for _, term := range terms {
		names = append(names, term.name)
	}
	if got, want := strings.Join(names, " "), "machine inturn open-claim kplan/1 home"; got != want {
		t.Fatalf("terms = %q, want %q", got, want)
	}
	f := source{path: "a/machine_test.go", dir: "a", text: []byte("package a\n\n// An open claim: kplan/1, of two Machines; a state machine, homes.\ntype homeOf struct{ machines, inTurn int }\n\nvar x = `machine`\n")}
	var got []string
	for _, u := range f.uses(terms) {
		got = append(got, fmt.Sprint(u.line, " ", u.word))
	}
	slices.Sort(got)
	if got, want := strings.Join(got, ", "), "1 machine, 3 kplan/1, 3 machine, 3 open-claim, 4 home, 4 inturn, 4 machine, 6 machine"; got != want {
		t.Errorf("uses = %q, want %q", got, want)
	}
}
