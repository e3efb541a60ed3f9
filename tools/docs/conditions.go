package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// conditionsPage is the reference of the conditions of our kinds: the constants of api/ whose names begin with
// ConditionType, under the comment of the block that they stand in.
func conditionsPage(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Conditions\n\nWhat `status.conditions` says. Each condition has `observedGeneration`, a reason, and a message that says what to do; `kubectl describe` shows them.\n" +
		"`make pages` writes this page from the comments in `api/`, and a test compares them.\n")
	err := filepath.WalkDir(filepath.Join(root, "api"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		group := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, filepath.Join(root, "api")+string(filepath.Separator))))
		for _, d := range file.Decls {
			if block, is := d.(*ast.GenDecl); is && block.Tok == token.CONST {
				conditions(&b, group, block)
			}
		}
		return nil
	})
	return b.Bytes(), err
}

// conditions writes a table of the conditions that a block of constants declares, if it declares any.
func conditions(b *bytes.Buffer, group string, block *ast.GenDecl) {
	var rows []string
	for _, s := range block.Specs {
		v, is := s.(*ast.ValueSpec)
		if !is || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "ConditionType") {
			continue
		}
		literal, is := v.Values[0].(*ast.BasicLit)
		if !is {
			continue
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue
		}
		meaning := strings.TrimPrefix(oneLine(v.Doc.Text()+v.Comment.Text()), v.Names[0].Name+" ")
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", name, cell(meaning)))
	}
	if len(rows) == 0 {
		return
	}
	title, rest, _ := strings.Cut(oneLine(block.Doc.Text()), ". ")
	fmt.Fprintf(b, "\n## %s\n\n`%s`. %s\n\n| condition | meaning |\n|---|---|\n%s\n", strings.TrimSuffix(title, "."), group, cell(rest), strings.Join(rows, "\n"))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
