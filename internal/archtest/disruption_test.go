package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryWeaknessOfDisruptionIsAnswered reads the table of docs/design/disruption-differences.md:
// each of D1 to D23 names a test that is there, or a story in internal/core/disrupt and
// what stands in it, or is a decision.
func TestEveryWeaknessOfDisruptionIsAnswered(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/design/disruption-differences.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := weaknesses(string(text), "D")
	tests := testNames(t)
	for i := 1; i <= 23; i++ {
		name := fmt.Sprintf("D%d", i)
		row, ok := rows[name]
		if !ok {
			t.Errorf("disruption-differences.md has no row %s", name)
			continue
		}
		shown := false
		for _, word := range quoted(row.proof) {
			test, _, _ := strings.Cut(word, "/")
			if !strings.HasPrefix(test, "Test") && !strings.HasPrefix(test, "Benchmark") {
				continue
			}
			shown = true
			if !tests[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
		if !shown && !strings.Contains(row.here, "decision") {
			t.Errorf("%s: no test shows it, and it is no decision: %s", name, row.here)
		}
		for _, missing := range missingStories(row.proof) {
			t.Errorf("%s: %s", name, missing)
		}
	}
}

// missingStories returns what the text says of stories that is not so. A story reads
// `TestStories/name` ("words in it", "others").
func missingStories(text string) (missing []string) {
	for _, m := range regexp.MustCompile("`TestStories/(\\w+)`(?: \\(([^)]*)\\))?").FindAllStringSubmatch(text, -1) {
		file := "internal/core/disrupt/testdata/" + m[1] + ".txt"
		story, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			missing = append(missing, "there is no "+file)
			continue
		}
		flat := strings.Join(strings.Fields(strings.ReplaceAll(string(story), "\n# ", " ")), " ")
		for _, words := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(m[2], -1) {
			if !strings.Contains(flat, words[1]) {
				missing = append(missing, fmt.Sprintf("%s does not have %q", file, words[1]))
			}
		}
	}
	return missing
}
