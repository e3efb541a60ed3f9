package redact

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write words.txt anew from the sources")

// spoken are the directories whose sentences are in decisions and in what is said about subjects.
var spoken = []string{"core", "decision/journal", "decision/record", "kube/translate", "kube/describe", "kube/mirror", "kube/apply", "controller", "view"}

// written finds words in string literals; a form such as %d is none.
var written = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]|[A-Za-z][A-Za-z'-]*[A-Za-z]|[A-Za-z]`)

// TestVocabulary compares words.txt with the sentences in the sources. A word too many does no harm, and one that is
// missing makes a sentence less readable, so most must be there.
func TestVocabulary(t *testing.T) {
	words := map[string]bool{}
	for _, dir := range spoken {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return literals(path, words)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	sorted := slices.Sorted(maps.Keys(words))
	if *rewrite {
		if err := os.WriteFile("words.txt", []byte(strings.Join(sorted, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	missing := slices.DeleteFunc(sorted, func(w string) bool { return wordsOfProgram()[w] })
	if len(missing)*20 > len(words) {
		t.Errorf("words.txt lacks %d of %d words; go test ./internal/decision/redact -run TestVocabulary -rewrite writes it anew: %q", len(missing), len(words), missing)
	}
}

// literals adds the words of a file's string literals.
func literals(path string, words map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				for _, w := range written.FindAllString(text, -1) {
					if !strings.HasPrefix(w, "%") {
						words[strings.ToLower(w)] = true
					}
				}
			}
		}
		return true
	})
	return nil
}
