package cloudtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
)

// TestDocsHaveEverySentence: the page for authors of providers has the sentences of the suite, in their order, and names no
// other test that does not exist.
func TestDocsHaveEverySentence(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/design/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, test := range cloudtest.Tests() {
		want = append(want, test.Name)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| cloudtest \|$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sentences (-suite +page):\n%s", diff)
	}
	tests := testsBelow(t, "../..") + testsBelow(t, "../../../test")
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("the page names %s, which does not exist", name[1])
		}
	}
}

// testsBelow returns the Go tests below a directory.
func testsBelow(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
