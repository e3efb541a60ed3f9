package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
)

// graph says which files of a package use which others: uses[i][j] are the package-level
// names, fields and methods declared in files[j] that files[i] mentions, each once however
// often it is mentioned. A file's uses of its own names, and of names in generated files,
// are left out.
type graph struct {
	files []string // base names, sorted
	uses  [][][]string
}

// reference is what one file's use of another weighs when an order is sought: more than
// any number of names, so that names only decide between orders with as many references
// against them.
const reference = 1000

// weights returns what each file's use of each other weighs.
func (g *graph) weights() [][]int {
	weights := make([][]int, len(g.files))
	for i, row := range g.uses {
		weights[i] = make([]int, len(row))
		for j, names := range row {
			if len(names) > 0 {
				weights[i][j] = reference + len(names)
			}
		}
	}
	return weights
}

// upwards lists the references from a file to one above it in an order, those with most
// names first.
func (g *graph) upwards(order []int) (pairs [][2]int) {
	for below, i := range order {
		for _, j := range order[:below] {
			if len(g.uses[i][j]) > 0 {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]int) int {
		return len(g.uses[b[0]][b[1]]) - len(g.uses[a[0]][a[1]])
	})
	return pairs
}

// total returns how many references there are.
func (g *graph) total() (n int) {
	for _, row := range g.uses {
		for _, names := range row {
			if len(names) > 0 {
				n++
			}
		}
	}
	return n
}

func references(c *checked) graph {
	var g graph
	index := map[*token.File]int{}
	for i, f := range c.files {
		file := c.fset.File(f.Pos())
		index[file] = i
		g.files = append(g.files, filepath.Base(file.Name()))
		g.uses = append(g.uses, make([][]string, len(c.files)))
	}
	for i, f := range c.files {
		seen := map[types.Object]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := origin(c.info.Uses[id])
			if obj == nil || seen[obj] || !shared(obj, c.types) {
				return true
			}
			seen[obj] = true
			if j, ok := index[c.fset.File(obj.Pos())]; ok && j != i {
				g.uses[i][j] = append(g.uses[i][j], obj.Name())
			}
			return true
		})
	}
	return g
}

// origin returns the declaration that an instance of something generic comes from.
func origin(obj types.Object) types.Object {
	switch o := obj.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return obj
}

// shared reports whether an object belongs to the package as a whole rather than to
// one function: a package-level name, a field or a method.
func shared(obj types.Object, p *types.Package) bool {
	if obj.Pkg() != p {
		return false
	}
	if obj.Parent() == p.Scope() {
		return true
	}
	switch o := obj.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Signature().Recv() != nil
	}
	return false
}
