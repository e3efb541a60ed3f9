package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// expressionMax is how long an expression may be, in code points.
	expressionMax = 2048
	// costMax is how much work one evaluation may be, in the units of CEL.
	costMax = 10_000
)

// program is one expression, ready to be evaluated.
type program struct{ cel.Program }

// environment is what expressions can name. It never changes, and making it is dear.
//
//nolint:gochecknoglobals // a constant that Go cannot spell
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{cel.ParserExpressionSizeLimit(expressionMax), cel.Variable("instance_type", cel.StringType)}
	for _, name := range []string{"vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods"} {
		options = append(options, cel.Variable(name, cel.IntType))
	}
	options = append(options, choice("max", math.Max, func(a, b int64) int64 { return max(a, b) }),
		choice("min", math.Min, func(a, b int64) int64 { return min(a, b) }))
	return cel.NewEnv(options...)
})

// choice declares a function of two numbers that returns one of them: an int if both are.
func choice(name string, doubles func(a, b float64) float64, ints func(a, b int64) int64) cel.EnvOption {
	overload := func(suffix string, a, b *cel.Type) cel.FunctionOpt {
		return cel.Overload(name+suffix, []*cel.Type{a, b}, cel.DoubleType, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return types.Double(doubles(asDouble(a), asDouble(b)))
		}))
	}
	return cel.Function(name,
		cel.Overload(name+"_int_int", []*cel.Type{cel.IntType, cel.IntType}, cel.IntType, cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			return types.Int(ints(int64(a.(types.Int)), int64(b.(types.Int))))
		})),
		overload("_double_double", cel.DoubleType, cel.DoubleType),
		overload("_int_double", cel.IntType, cel.DoubleType),
		overload("_double_int", cel.DoubleType, cel.IntType))
}

func asDouble(v ref.Val) float64 {
	if n, ok := v.(types.Int); ok {
		return float64(n)
	}
	return float64(v.(types.Double)) // the overloads take nothing else
}

// compile returns the expressions ready to be evaluated. The error names those that are
// not valid.
func compile(expressions map[string]string) (map[string]program, error) {
	if len(expressions) == 0 {
		return nil, nil
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	programs := map[string]program{}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(expressions)) {
		p, err := compileOne(env, expressions[path])
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.kubelet.%s: expression %q: %w", path, expressions[path], err))
			continue
		}
		programs[path] = p
	}
	return programs, oneLine(errors.Join(errs...))
}

func compileOne(env *cel.Env, text string) (program, error) {
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return program{}, err
	}
	if t := ast.OutputType(); !t.IsExactType(cel.IntType) && !t.IsExactType(cel.DoubleType) {
		return program{}, fmt.Errorf("gives a %s, must give an int or a double", t)
	}
	p, err := env.Program(ast, cel.CostLimit(costMax))
	return program{p}, err
}

// number evaluates the expression for an instance. What follows the point is cut off.
func (p program) number(m InstanceType) (int64, error) {
	value, _, err := p.Eval(map[string]any{
		"instance_type": m.Type, "vcpus": m.VCPUs, "memory_mib": m.MemoryMiB,
		"default_enis": m.ENIs, "ips_per_eni": m.IPsPerENI, "max_pods": m.Pods,
	})
	if err != nil {
		return 0, err
	}
	result := math.Trunc(asDouble(value))
	if !(result >= 0 && result < math.MaxInt64/2) { // neither NaN nor infinite either
		return 0, fmt.Errorf("gives %v, which is not a number from 0 on", value)
	}
	return int64(result), nil
}

// oneLine returns the error with its parts on one line.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// InstanceType is what expressions can name of an instance type.
type InstanceType struct {
	Type             string
	VCPUs, MemoryMiB int64
	// ENIs and IPsPerENI are those of the default network card.
	ENIs, IPsPerENI int64
	// Pods is how many pods the instance takes if maxPods is not set.
	Pods int64
}
