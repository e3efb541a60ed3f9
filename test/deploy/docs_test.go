package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
)

// TestTheReferenceNamesEveryStatement compares docs/reference/iam.md with the policies.
func TestTheReferenceNamesEveryStatement(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "iam.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, p := range policy.Policies(policy.Params{}) {
		want = append(want, "## "+p.Name)
		for _, s := range p.Document.Statement {
			want = append(want, s.Sid+": "+strings.Join(s.Action, " "))
		}
	}
	row := regexp.MustCompile("^\\| (\\w+) \\| `(.*)` \\|")
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") {
			got = append(got, line)
		}
		if m := row.FindStringSubmatch(line + " |"); m != nil {
			actions, _, _ := strings.Cut(m[2], "` | ")
			got = append(got, m[1]+": "+strings.ReplaceAll(actions, "` `", " "))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/iam.md (-want +got):\n%s", diff)
	}
}
