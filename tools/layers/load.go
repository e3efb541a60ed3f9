package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// product lists what is measured. Tests are left out: go list names them apart.
var product = []string{"./api/...", "./cmd/...", "./internal/..."}

// checked is one package: its files as they were parsed, without generated ones,
// and what the type checker knows of them.
type checked struct {
	module string // its path
	dir    string // of the package, below the root of the module
	fset   *token.FileSet
	files  []*ast.File
	types  *types.Package
	info   *types.Info
}

// listed is what go list says of a package. Export is the file with the types it exports.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Module                  *struct{ Path string }
}

// load type-checks the product's packages in the module at root, what is imported first.
func load(root string) ([]*checked, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Module"}, product...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	var mine []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 0 {
			mine = append(mine, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var packages []*checked
	for _, p := range mine {
		c, err := check(p, fset, imports)
		if err != nil {
			return nil, err
		}
		if c.dir, err = filepath.Rel(root, p.Dir); err != nil {
			return nil, err
		}
		packages = append(packages, c)
	}
	return packages, nil
}

func check(p listed, fset *token.FileSet, imports types.Importer) (*checked, error) {
	c := &checked{module: p.Module.Path, fset: fset, info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
	var all []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
		if !ast.IsGenerated(f) {
			c.files = append(c.files, f)
		}
	}
	var err error
	c.types, err = (&types.Config{Importer: imports}).Check(p.ImportPath, fset, all, c.info)
	return c, err
}
