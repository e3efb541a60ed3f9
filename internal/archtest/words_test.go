package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// source is a file that people read.
type source struct {
	path, dir string // below the root of the tree
	text      []byte
}

// use is where a retired word stands.
type use struct {
	word string
	line int
}

// exempt lists what may say retired words: what was written once and is not changed (decisions,
// diaries), what lists the words, what is generated from Go files, and the dev cluster, a
// program of its own that knows neither nodes to launch nor pods to place.
var exempt = []string{"config/crd", "deploy/charts/karpenter/crds", "deploy/charts/karpenter-crd/files", "devcluster", "docs/adr", "docs/glossary.md", "docs/lab", "internal/archtest/glossary_test.go", "internal/archtest/testdata"}

// readable lists the ends of the names of files that are looked into.
var readable = []string{".go", ".md", ".txt", ".yaml", ".sh", "Makefile"}

// texts returns the files of the tree that people read.
func texts(t *testing.T) (list []source) {
	t.Helper()
	for _, path := range filesOf(t) {
		if within(path, exempt) || strings.Contains(path, "/fuzz/") || !slices.ContainsFunc(readable, func(end string) bool { return strings.HasSuffix(path, end) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, source{path, filepath.Dir(path), text})
	}
	return list
}

// filesOf returns the paths of the files of the tree, without what is built and what git keeps.
func filesOf(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if d.IsDir() && (rel == ".git" || rel == "bin" || rel == "dist" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// within reports whether a path is one of a list, or below one.
func within(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

// uses returns the retired words of a file: in its name (line 1) and in what it says.
func (f *source) uses(terms []term) []use {
	return slices.DeleteFunc(f.allUses(terms), func(u use) bool {
		return slices.Contains(foreign[f.path], u.word) || slices.Contains(foreign[f.dir], u.word)
	})
}

func (f *source) allUses(terms []term) []use {
	all := match(terms, split(filepath.Base(f.path)), 1, true)
	if !strings.HasSuffix(f.path, ".go") {
		text := string(f.text)
		if filepath.Base(f.path) == "CHANGELOG.md" { // it quotes what was renamed
			text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
		}
		return append(all, prose(terms, text, 1)...)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return nil
	}
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			all = append(all, prose(terms, c.Text, fset.Position(c.Pos()).Line)...)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			all = append(all, prose(terms, text.Value, fset.Position(text.Pos()).Line)...)
		}
		for _, id := range declared(n) {
			all = append(all, match(terms, split(id.Name), fset.Position(id.Pos()).Line, true)...)
		}
		_, imports := n.(*ast.ImportSpec)
		return !imports
	})
	return all
}

// declared returns the names that a node declares; those that it only uses may be others'.
func declared(n ast.Node) (names []*ast.Ident) {
	add := func(list ...ast.Expr) {
		for _, x := range list {
			if id, ok := x.(*ast.Ident); ok {
				names = append(names, id)
			}
		}
	}
	switch n := n.(type) {
	case *ast.FuncDecl:
		add(n.Name)
	case *ast.TypeSpec:
		add(n.Name)
	case *ast.ValueSpec:
		names = append(names, n.Names...)
	case *ast.Field:
		names = append(names, n.Names...)
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			add(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			add(n.Key, n.Value)
		}
	case *ast.ImportSpec:
		if n.Name != nil {
			add(n.Name)
		}
	case *ast.File:
		add(n.Name)
	}
	return names
}

// prose returns the retired words of a text that begins at a line.
func prose(terms []term, text string, line int) (all []use) {
	for s := range strings.Lines(allowedTexts.Replace(text)) {
		for _, t := range terms {
			if t.text != "" && !t.namesOnly && strings.Contains(s, t.text) {
				all = append(all, use{t.name, line})
			}
		}
		all = append(all, match(terms, split(s), line, false)...)
		line++
	}
	return all
}

// match returns the retired words among words that follow each other.
func match(terms []term, words []string, line int, name bool) (all []use) {
	words = withoutAllowed(words)
	for _, t := range terms {
		if !name && t.namesOnly {
			continue
		}
		for i := range words {
			if len(t.words) > 0 && begins(words[i:], t.words) {
				all = append(all, use{t.name, line})
			}
		}
	}
	return all
}

// begins reports whether words begin with certain others, of which the last may be in the plural.
func begins(words, with []string) bool {
	last := len(with) - 1
	if len(words) <= last || !slices.Equal(words[:last], with[:last]) {
		return false
	}
	word := words[last]
	return word == with[last] || word == with[last]+"s" || word == with[last]+"es"
}

// withoutAllowed returns words with those of allowed phrases struck out.
func withoutAllowed(words []string) []string {
	for _, phrase := range allowedPhrases {
		p := strings.Fields(phrase)
		for i := range words {
			if begins(words[i:], p) {
				words = slices.Clone(words)
				for j := range p {
					words[i+j] = ""
				}
			}
		}
	}
	return words
}

// split returns the words of a text in lower case; an identifier's are found by its capitals.
func split(text string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}
