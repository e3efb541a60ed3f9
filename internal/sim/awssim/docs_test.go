package awssim

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReference compares docs/reference/awssim.md with the code: kinds of faults and
// operations.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/awssim.md")
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
	sim, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name := range sim.operations() {
		_, operation, _ := strings.Cut(name, ":")
		if !regexp.MustCompile(`\b` + operation + `\b`).Match(page) {
			t.Errorf("the page does not have %s", name)
		}
	}
}

// TestBeliefsAreDocumented: docs/reference/awssim.md has a row for each switch, and the tests that
// it names exist.
func TestBeliefsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/awssim.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, room := range []string{"../../cloud/aws", "../../../test/disaster"} {
		files, err := filepath.Glob(room + "/*_test.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files of tests in %s, error %v", len(files), room, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name) //nolint:gosec // the tree's own
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	rows := map[string][]string{} // the tests, by switch
	for _, m := range regexp.MustCompile("(?m)^\\| \\d+ \\|[^|]*\\| `(\\w+)` \\|.*\\|(.*)\\|$").FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = regexp.MustCompile(`Test\w+`).FindAllString(m[2], -1)
	}
	for i := range reflect.TypeFor[Beliefs]().NumField() {
		name := reflect.TypeFor[Beliefs]().Field(i).Name
		if len(rows[name]) == 0 {
			t.Errorf("the page has no row with a test for %s", name)
		}
		for _, test := range rows[name] {
			if !strings.Contains(code.String(), "func "+test+"(") {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
		delete(rows, name)
	}
	if len(rows) > 0 {
		t.Errorf("the page has rows for what is no switch: %v", rows)
	}
}
