package verdict_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestDocsNameEveryReason compares docs/reference/verdicts.md with the constants of the package.
func TestDocsNameEveryReason(t *testing.T) {
	t.Parallel()
	read := func(file, pattern string) (found []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return found
	}
	want := read("verdict.go", `Reason\s+= "(\w+)"`)
	if got := read("../../../docs/reference/verdicts.md", "(?m)^\\| `(\\w+)` \\|"); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("docs/reference/verdicts.md has\n%q, the code has\n%q", got, want)
	}
}
