// Command ec2branches writes the table of branch interfaces that
// internal/cloud/aws/instance embeds: how many security groups for pods an instance type
// can carry. EC2 does not say; the VPC resource controller's source does, and is read
// from the module cache. Its package is not linked, because its module asks for much else.
// Usage: ec2branches FILE.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const source = "github.com/aws/amazon-vpc-resource-controller-k8s@v1.8.2"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ec2branches FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "ec2branches:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	cmd := exec.Command("go", "mod", "download", "-json", source)
	cmd.Dir = os.TempDir() // outside of any module
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("download %s: %w", source, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(b, &module); err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(module.Dir, "pkg/aws/vpc/limits.go"), nil, 0)
	if err != nil {
		return err
	}
	var lines []string
	ast.Inspect(file, func(n ast.Node) bool {
		if entry, ok := n.(*ast.KeyValueExpr); ok {
			if name, ok := entry.Key.(*ast.BasicLit); ok && name.Kind == token.STRING {
				if line, ok := branches(name.Value, entry.Value); ok {
					lines = append(lines, line)
				}
				return false
			}
		}
		return true
	})
	slices.Sort(lines)
	fmt.Printf("%d types\n", len(lines))
	return os.WriteFile(out, []byte(strings.Join(lines, "")), 0o644)
}

// branches returns the line of a type that can have branch interfaces.
func branches(quoted string, limits ast.Expr) (line string, ok bool) {
	fields := map[string]string{}
	literal, ok := limits.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	for _, e := range literal.Elts {
		if field, ok := e.(*ast.KeyValueExpr); ok {
			switch value := field.Value.(type) {
			case *ast.BasicLit:
				fields[fmt.Sprint(field.Key)] = value.Value
			case *ast.Ident:
				fields[fmt.Sprint(field.Key)] = value.Name
			}
		}
	}
	name, err := strconv.Unquote(quoted)
	n := fields["BranchInterface"]
	return name + "," + n + "\n", err == nil && fields["IsTrunkingCompatible"] == "true" && n != "" && n != "0"
}
