package aws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/policy"
)

// TestThePolicyAllowsWhatIsCalled: no operation is called that the policies do not allow,
// and they allow none that is not called.
func TestThePolicyAllowsWhatIsCalled(t *testing.T) {
	t.Parallel()
	allowed := policy.Actions(policy.Policies(policy.Params{}))
	for action := range policy.Implied() {
		if !slices.Contains(allowed, action) {
			t.Errorf("%s is called implied and is not allowed", action)
		}
		allowed = slices.DeleteFunc(allowed, func(a string) bool { return a == action })
	}
	if diff := cmp.Diff(calledOperations(t), allowed); diff != "" {
		t.Errorf("operations of the code (-), allowed by internal/cloud/aws/policy (+):\n%s", diff)
	}
}

// calledOperations reads the operations out of this package's code: methods of the clients, and
// the paginators that call them.
func calledOperations(t *testing.T) []string {
	t.Helper()
	var called []string
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if operation := operationOf(call); operation != "" {
					called = append(called, operation)
				}
			}
			return true
		})
	}
	slices.Sort(called)
	return slices.Compact(called)
}

// operationOf returns the operation of p.clients.EC2.CreateFleet(…) or of
// ec2.NewDescribeSubnetsPaginator(…); empty: it is another call.
func operationOf(call *ast.CallExpr) string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch on := method.X.(type) {
	case *ast.SelectorExpr:
		if from, ok := on.X.(*ast.SelectorExpr); ok && from.Sel.Name == "clients" {
			service := strings.ToLower(on.Sel.Name)
			if service == "zonalshift" {
				service = "arc-zonal-shift"
			}
			return service + ":" + method.Sel.Name
		}
	case *ast.Ident:
		operation, isNew := strings.CutPrefix(method.Sel.Name, "New")
		operation, isPaginator := strings.CutSuffix(operation, "Paginator")
		if isNew && isPaginator {
			return on.Name + ":" + operation
		}
	}
	return ""
}
