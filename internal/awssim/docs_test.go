package awssim

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReference compares docs/reference/awssim.md with the code: kinds of faults and
// operations.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/awssim.md")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllSubmatch(page, -1) {
		kinds = append(kinds, string(m[1]))
	}
	known := append(conditions(), slices.Collect(maps.Keys(actions()))...)
	slices.Sort(known)
	slices.Sort(kinds)
	if !slices.Equal(kinds, known) {
		t.Errorf("the page has the kinds %v\nthe code      %v", kinds, known)
	}
	for name := range operations() {
		_, operation, _ := strings.Cut(name, ":")
		if !regexp.MustCompile(`\b` + operation + `\b`).Match(page) {
			t.Errorf("the page does not have %s", name)
		}
	}
}
