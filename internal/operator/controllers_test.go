package operator

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocsDecideAboutEveryController: panels and log queries select by the name of a controller. For
// each that Karpenter has the docs say whether we show one of the name; what they call shown is.
func TestDocsDecideAboutEveryController(t *testing.T) {
	t.Parallel()
	var want, got []string
	for line := range strings.Lines(read(t, "testdata/controllers.txt")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	_, table, _ := strings.Cut(read(t, "../../docs/reference/metrics.md"), "\n## Controllers\n")
	sources := sourcesOf(t, "../controller", "../cloud", "../kube")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9.-]+)` \\| (yes|–) \\|").FindAllStringSubmatch(table, -1) {
		got = append(got, row[1])
		name := `"` + row[1] + `"`
		if strings.HasPrefix(row[1], "operatorpkg.") {
			name = `"operatorpkg."` // the kind follows
		}
		if row[2] == "yes" && !strings.Contains(sources, name) {
			t.Errorf("docs/reference/metrics.md calls %s shown, and no source has %s", row[1], name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/metrics.md, controllers (-want +got):\n%s", diff)
	}
	if !slices.IsSorted(want) {
		t.Error("testdata/controllers.txt is not sorted")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sourcesOf returns the Go sources below directories, without tests.
func sourcesOf(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all.WriteString(read(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
