package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// diaries lists the documents that name what there was when they were written.
var diaries = []string{"CHANGELOG.md", "docs/adr", "docs/lab"}

// TestDocumentsNameWhatIsThere checks the links of every document, and in those that describe
// the tree as it is also the tests, Go files and paths in backticks.
func TestDocumentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	files, tests := filesOf(t), testNames(t)
	test, file := regexp.MustCompile(`^Test\w+`), regexp.MustCompile(`^[a-z][\w/-]*\.go$`)
	path := regexp.MustCompile(`^(api|bench|cmd|config|deploy|docs|examples|internal|test|tools)/[\w/.-]+$`)
	for _, doc := range files {
		if !strings.HasSuffix(doc, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range brokenLinks(doc, string(text)) {
			t.Errorf("%s: the link to %s leads nowhere", doc, link)
		}
		if within(doc, diaries) {
			continue
		}
		for _, word := range quoted(withoutBlocks(string(text))) {
			if name := test.FindString(word); name != "" && !tests[name] {
				t.Errorf("%s: there is no test %s", doc, name)
			}
			if file.MatchString(word) && !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix("/"+f, "/"+word) }) {
				t.Errorf("%s: there is no file %s", doc, word)
			}
			if path.MatchString(word) && !exists(word) && !exists(filepath.Join(filepath.Dir(doc), word)) {
				t.Errorf("%s: there is no %s", doc, word)
			}
		}
	}
}

// TestPackageCommentsNameWhatIsThere checks the files that package comments name for a reader to open.
func TestPackageCommentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\b[a-z][\w/]*\.go\b`)
	for _, path := range filesOf(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range name.FindAllString(f.Doc.Text(), -1) {
			if !exists(filepath.Join(filepath.Dir(path), file)) && !exists(file) {
				t.Errorf("%s: there is no %s", path, file)
			}
		}
	}
}

// brokenLinks returns the relative links of a document that lead to no file or to no heading.
func brokenLinks(doc, text string) (broken []string) {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(withoutBlocks(text), -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(file, ":") {
			continue
		}
		target, linked := filepath.Join(filepath.Dir(doc), file), text
		if file != "" && anchor != "" {
			other, _ := os.ReadFile(filepath.Join(root, target)) // nothing links to what is not there
			linked = string(other)
		}
		if !exists(target) || anchor != "" && !slices.Contains(anchors(linked), anchor) {
			broken = append(broken, m[1])
		}
	}
	return broken
}

// anchors returns the names that the headings of a document are linked by.
func anchors(text string) (names []string) {
	for line := range strings.Lines(withoutBlocks(text)) {
		heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !is || !strings.HasPrefix(line, "#") {
			continue
		}
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(heading)))
	}
	return names
}

// withoutBlocks returns a document without its fenced blocks.
func withoutBlocks(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	text := "# A `b`: c\n[own](#a-b-c) [no](#d) [file](doc.go) [none](none.go)\n```\n[in a block](none.md)\n```\n[out](https://example.com/none)\n"
	if got, want := strings.Join(brokenLinks("internal/archtest/x.md", text), " "), "#d none.go"; got != want {
		t.Errorf("broken: %s, want %s", got, want)
	}
	if got, want := strings.Join(anchors(text), " "), "a-b-c"; got != want {
		t.Errorf("anchors: %s, want %s", got, want)
	}
}
