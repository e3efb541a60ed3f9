package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

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

// HasExpressions reports whether any value is an expression.
func (c *Config) HasExpressions() bool { return len(c.expressions()) > 0 }

// ExpressionError says which expressions are not valid, and why.
func (c *Config) ExpressionError() error { return c.broken }

// Unsupported returns an error that names the fields which instances of the family do not take.
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

// exponentDigits is how many digits the exponent of a quantity may have: all digits of 1E2000000000
// are worked out by who reads it, for hours. The definitions of our objects have the same bound.
const exponentDigits = 3

// ParseQuantity reads a quantity as a class has it.
func ParseQuantity(text string) (resource.Quantity, error) {
	if i := strings.LastIndexAny(text, "eE"); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-")) > exponentDigits {
		return resource.Quantity{}, fmt.Errorf("%.40q: the exponent has more than %d digits", text, exponentDigits)
	}
	return resource.ParseQuantity(text)
}
