package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryWeaknessIsAnswered reads the table of docs/design/placement.md: each of W1 to
// W22 says what became of it, and what it names as proof is there: a test, a story (a file
// in internal/core/pack/testdata) or a path. Where nothing is shown it is a decision, or
// said to be so still.
func TestEveryWeaknessIsAnswered(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/design/placement.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := weaknesses(string(text), "W")
	tests := testNames(t)
	for i := 1; i <= 22; i++ {
		name := fmt.Sprintf("W%d", i)
		row, ok := rows[name]
		if !ok {
			t.Errorf("placement.md has no row %s", name)
			continue
		}
		proofs := quoted(row.proof)
		if len(proofs) == 0 && !strings.Contains(row.here, "decision") && !strings.Contains(row.here, "still so") {
			t.Errorf("%s: nothing shows it, and it is neither a decision nor still so: %s", name, row.here)
		}
		for _, proof := range proofs {
			if !proven(proof, tests) {
				t.Errorf("%s: there is no %s", name, proof)
			}
		}
	}
}

// weakness is one row: what became of it, and what shows it.
type weakness struct{ here, proof string }

// weaknesses returns the rows of a table whose names begin with a letter.
func weaknesses(text, letter string) map[string]weakness {
	rows := map[string]weakness{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && strings.HasPrefix(strings.TrimSpace(cells[1]), letter) {
			rows[strings.TrimSpace(cells[1])] = weakness{cells[3], cells[4]}
		}
	}
	return rows
}

func quoted(text string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// proven reports whether a test, a checker within one, a story or a path is there.
func proven(name string, tests map[string]bool) bool {
	if tests[name] {
		return true
	}
	for _, path := range []string{name, "internal/core/pack/testdata/" + name + ".txt"} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return true
		}
	}
	return false
}

// testNames returns the functions of all test files.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (\w+)\(`)
	for _, dir := range []string{"internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(source, -1) {
				names[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
