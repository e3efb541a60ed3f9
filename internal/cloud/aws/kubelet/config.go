package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
)

// Config is the kubelet's configuration of one class. It is never changed.
type Config struct {
	// fields is everything, as written.
	fields map[string]any
	// typed is the same, with 0 for maxPods if that is an expression.
	typed kubeletv1beta1.KubeletConfiguration
	// programs are the expressions, compiled, by the path of their field.
	programs map[string]program
	// broken is what is wrong with the expressions.
	broken error
}

// managed lists the fields that every family knows, beside those that say what the
// object is.
var managed = []string{ //nolint:gochecknoglobals // a constant that Go cannot spell
	"apiVersion", "kind",
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved",
	"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMaxPodGracePeriod",
	"imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
}

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

// HasExpressions reports whether any value is an expression.
func (c *Config) HasExpressions() bool { return len(c.expressions()) > 0 }

// ExpressionError says which expressions are not valid, and why.
func (c *Config) ExpressionError() error { return c.broken }

// Unsupported says what an instance of the family cannot be told.
func (c *Config) Unsupported(f family.Family) error {
	if f.Name == family.Custom {
		return nil
	}
	var errs []error
	if !f.AnyKubelet {
		for _, key := range slices.Sorted(maps.Keys(c.fields)) {
			if !slices.Contains(managed, key) {
				errs = append(errs, fmt.Errorf("spec.kubelet.%s: family %s cannot set it; only AL2023 can set every field", key, f.Name))
			}
		}
		if n := len(c.typed.ClusterDNS); n > 1 {
			errs = append(errs, fmt.Errorf("spec.kubelet.clusterDNS: has %d addresses; family %s takes one", n, f.Name))
		}
	}
	if _, set := c.fields["podsPerCore"]; set && !f.PodsPerCore {
		errs = append(errs, fmt.Errorf("spec.kubelet.podsPerCore: family %s does not know it; use maxPods", f.Name))
	}
	return oneLine(errors.Join(errs...))
}

// JSON returns the configuration in a form that is the same for equal ones; "null" if
// there is none.
func (c *Config) JSON() string {
	if len(c.fields) == 0 {
		return "null"
	}
	text, err := json.Marshal(c.fields)
	if err != nil {
		panic("kubelet configuration that was read cannot be written: " + err.Error())
	}
	return string(text)
}

// expressions returns the values that are expressions, by the path of their field.
func (c *Config) expressions() map[string]string {
	found := map[string]string{}
	if text, ok := c.fields["maxPods"].(string); ok {
		found["maxPods"] = text
	}
	for field, list := range c.reserved() {
		for key, value := range list {
			if _, err := ParseQuantity(value); err != nil {
				found[field+"."+key] = value
			}
		}
	}
	return found
}

func (c *Config) reserved() map[string]map[string]string {
	return map[string]map[string]string{"systemReserved": c.typed.SystemReserved, "kubeReserved": c.typed.KubeReserved}
}

// oneLine returns the error with its parts on one line.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}
