package main

import (
	"go/ast"
	"go/types"
	"strings"
)

// methods returns how many methods each type of a package has that are declared in this
// module, those of embedded types among them: what Kubernetes' own types bring along,
// nobody here can mend.
func methods(c *checked) []measure {
	var all []measure
	for _, name := range c.types.Scope().Names() {
		t, ok := c.types.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		set := types.NewMethodSet(t.Type())
		if !types.IsInterface(t.Type()) {
			set = types.NewMethodSet(types.NewPointer(t.Type()))
		}
		n := 0
		for m := range set.Methods() {
			if p := m.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path()+"/", c.module+"/") {
				n++
			}
		}
		all = append(all, measure{kind: "methods", name: c.dir + "." + name, value: n, limit: methodsMax})
	}
	return all
}

// foreign lists methods whose parameters an interface of others demands.
var foreign = map[string]bool{
	"AnnotatedEventf": true, // client-go's record.EventRecorder
}

// parameters returns how many parameters each function of a package has, and each method
// of its interfaces. The receiver does not count. A literal bears the name of the function
// that it stands in.
func parameters(c *checked) []measure {
	most := map[string]int{}
	for _, f := range c.files {
		for _, d := range f.Decls {
			within := c.dir
			if fn, ok := d.(*ast.FuncDecl); ok {
				within += "." + receiver(fn) + fn.Name.Name
				most[within] = max(most[within], count(fn.Type))
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit:
					most[within+".func"] = max(most[within+".func"], count(n.Type))
				case *ast.TypeSpec:
					if i, ok := n.Type.(*ast.InterfaceType); ok {
						interfaceMethods(i, within+"."+n.Name.Name, most)
					}
				}
				return true
			})
		}
	}
	var all []measure
	for name, n := range most {
		if foreign[name[strings.LastIndex(name, ".")+1:]] {
			continue
		}
		all = append(all, measure{kind: "parameters", name: name, value: n, limit: parametersMax})
	}
	return all
}

func interfaceMethods(i *ast.InterfaceType, within string, most map[string]int) {
	for _, m := range i.Methods.List {
		if f, ok := m.Type.(*ast.FuncType); ok {
			most[within+"."+m.Names[0].Name] = count(f)
		}
	}
}

func count(f *ast.FuncType) (n int) {
	for _, p := range f.Params.List {
		n += max(1, len(p.Names))
	}
	return n
}

// receiver returns the name of the type that a method is of, with a point after it.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}
