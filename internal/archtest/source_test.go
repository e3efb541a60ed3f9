package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a reader can hold. Generated files are exempt.
const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

func TestSource(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		for _, name := range p.GoFiles {
			checkFile(t, filepath.Join(p.Dir, name), isCore(p.ImportPath))
		}
	}
}

func checkFile(t *testing.T, path string, core bool) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(f) {
		return
	}
	if n := fset.File(f.Pos()).LineCount(); n > maxFileLines {
		t.Errorf("%s has %d lines, more than %d: it holds more than one thing", path, n, maxFileLines)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			checkFunction(t, fset, d)
		case *ast.GenDecl:
			if core && d.Tok == token.VAR {
				checkCoreVar(t, fset, d)
			}
		}
	}
	if core {
		checkNoClock(t, fset, f)
	}
}

func checkFunction(t *testing.T, fset *token.FileSet, d *ast.FuncDecl) {
	t.Helper()
	at := fset.Position(d.Pos())
	if d.Name.Name == "init" && d.Recv == nil {
		t.Errorf("%s: init hides work; build it where it is used", at)
	}
	if n := fset.Position(d.End()).Line - at.Line + 1; n > maxFunctionLines {
		t.Errorf("%s: %s has %d lines, more than a screen of %d", at, d.Name.Name, n, maxFunctionLines)
	}
}

// checkCoreVar allows only sentinel errors and interface checks.
func checkCoreVar(t *testing.T, fset *token.FileSet, d *ast.GenDecl) {
	t.Helper()
	for _, s := range d.Specs {
		for _, id := range s.(*ast.ValueSpec).Names {
			if id.Name != "_" && !strings.HasPrefix(id.Name, "Err") && !strings.HasPrefix(id.Name, "err") {
				t.Errorf("%s: package variable %s: the core has no global state", fset.Position(id.Pos()), id.Name)
			}
		}
	}
}

func checkNoClock(t *testing.T, fset *token.FileSet, f *ast.File) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "NewTimer", "NewTicker", "Tick"}, sel.Sel.Name) {
			t.Errorf("%s: time.%s: take the time from Snapshot.At", fset.Position(sel.Pos()), sel.Sel.Name)
		}
		return true
	})
}
