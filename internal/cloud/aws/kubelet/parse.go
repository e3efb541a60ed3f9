package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// Parse reads spec.kubelet of a class; nil is the empty configuration. The error names
// every field that is wrong. Expressions are compiled, but what is wrong with them is for
// ExpressionError to say.
func Parse(raw *runtime.RawExtension) (*Config, error) {
	c := &Config{fields: map[string]any{}}
	if raw == nil || len(raw.Raw) == 0 {
		return c, nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &c.fields); err != nil {
		return nil, fmt.Errorf("spec.kubelet: not an object: %w", err)
	}
	if c.fields == nil { // null
		return &Config{fields: map[string]any{}}, nil
	}
	plain := maps.Clone(c.fields)
	if _, expression := plain["maxPods"].(string); expression {
		plain["maxPods"] = 0
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", err)
	}
	strict, err := kjson.UnmarshalStrict(text, &c.typed)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", oneLine(err))
	}
	if err := c.check(); err != nil {
		return nil, oneLine(err)
	}
	c.programs, c.broken = compile(c.expressions())
	return c, nil
}
