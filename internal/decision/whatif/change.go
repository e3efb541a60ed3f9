package whatif

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
)

// Change is what is to be different. Several take effect in the order of the fields.
type Change struct {
	// Pools take the place of those of the same name, or are new. Notes say what of the files was not read.
	Pools []*karpenterv1.NodePool
	Notes []string
	// Settings are POOL.PATH=VALUE: a field below the spec of a NodePool.
	Settings []string
	// Policy is the consolidationPolicy of all NodePools; empty: each has its own.
	Policy string
	// WithoutTypes are patterns of names of instance types that no NodePool may launch.
	WithoutTypes []string
	// Spot is which share of each workload's pods may be on spot nodes, in all NodePools; nil: as it is.
	Spot *float64
}

// IsNothing reports whether nothing is to be different.
func (c *Change) IsNothing() bool {
	return len(c.Pools)+len(c.Settings)+len(c.WithoutTypes) == 0 && c.Policy == "" && c.Spot == nil
}

// apply returns the NodePools after the change, and what is different in words.
func (c *Change) apply(before []*karpenterv1.NodePool, from *simulate.Catalog) (pools []*karpenterv1.NodePool, said []string, err error) {
	for _, np := range before {
		pools = append(pools, np.DeepCopy())
	}
	find := func(name string) int {
		return slices.IndexFunc(pools, func(np *karpenterv1.NodePool) bool { return np.Name == name })
	}
	said = []string{}
	for _, np := range c.Pools {
		if i := find(np.Name); i >= 0 {
			said = append(said, differences(pools[i], np)...)
			pools[i] = replaced(pools[i], np)
		} else {
			said = append(said, "NodePool "+np.Name+" is new")
			pools = append(pools, np.DeepCopy())
		}
	}
	for _, setting := range c.Settings {
		name, field, value, err := parseSetting(setting, pools)
		if err != nil {
			return nil, nil, err
		}
		i := find(name)
		np, err := set(pools[i], field, value)
		if err != nil {
			return nil, nil, fmt.Errorf("NodePool %s: %w", name, err)
		}
		said = append(said, differences(pools[i], np)...)
		pools[i] = np
	}
	for i, np := range pools {
		with, err := c.all(np, from)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, differences(np, with)...)
		pools[i] = with
	}
	if c.Spot != nil {
		said = append(said, fmt.Sprintf("up to %.0f %% of each workload's pods on spot nodes, the others not", 100**c.Spot))
	}
	return pools, append(said, c.Notes...), nil
}

// replaced returns a NodePool as it is after somebody applies another: with the status and the metadata that the
// API server keeps.
func replaced(was, by *karpenterv1.NodePool) *karpenterv1.NodePool {
	np := by.DeepCopy()
	np.UID, np.CreationTimestamp, np.Generation = was.UID, was.CreationTimestamp, was.Generation+1
	np.Status = *was.Status.DeepCopy()
	return np
}

// all returns a NodePool with what is to be different of all of them.
func (c *Change) all(np *karpenterv1.NodePool, from *simulate.Catalog) (*karpenterv1.NodePool, error) {
	np = np.DeepCopy()
	if c.Policy != "" {
		policies := []string{string(karpenterv1.ConsolidationPolicyWhenEmpty), string(karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized), string(karpenterv1.ConsolidationPolicyBalanced)}
		if !slices.Contains(policies, c.Policy) {
			return nil, fmt.Errorf("the policy is %q, must be %s", c.Policy, strings.Join(policies, ", "))
		}
		np.Spec.Disruption.ConsolidationPolicy = karpenterv1.ConsolidationPolicy(c.Policy)
	}
	requirements := &np.Spec.Template.Spec.Requirements
	for _, pattern := range c.WithoutTypes {
		var names []string
		for _, t := range from.TypesFor(np) {
			fits, err := path.Match(pattern, t.Name)
			if err != nil {
				return nil, fmt.Errorf("%q is no pattern: use * for anything, as in m5.*", pattern)
			}
			if fits {
				names = append(names, t.Name)
			}
		}
		if len(names) > 0 {
			*requirements = append(*requirements, karpenterv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpNotIn, Values: names})
		}
	}
	if c.Spot != nil {
		if !(*c.Spot >= 0 && *c.Spot <= 1) {
			return nil, errors.New("the share of spot must be 0 % to 100 %")
		}
		kept := slices.DeleteFunc(slices.Clone(*requirements), func(r karpenterv1.NodeSelectorRequirementWithMinValues) bool {
			return r.Key == karpenterv1.CapacityTypeLabelKey
		})
		*requirements = append(kept, karpenterv1.NodeSelectorRequirementWithMinValues{
			Key: karpenterv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{label.OnDemand, label.Reserved, label.Spot},
		})
	}
	return np, nil
}

// parseSetting reads POOL.PATH=VALUE. The names of NodePools may have dots: the longest that there is counts.
func parseSetting(text string, pools []*karpenterv1.NodePool) (pool string, field []string, value any, err error) {
	left, right, ok := strings.Cut(text, "=")
	if !ok {
		return "", nil, nil, fmt.Errorf("%q must be POOL.FIELD=VALUE, as in general.limits.cpu=2000", text)
	}
	rest := ""
	var names []string
	for _, np := range pools {
		names = append(names, np.Name)
		if after, is := strings.CutPrefix(left, np.Name+"."); is && len(np.Name) > len(pool) {
			pool, rest = np.Name, after
		}
	}
	if pool == "" {
		return "", nil, nil, fmt.Errorf("%q names no NodePool; there are %s", left, strings.Join(names, ", "))
	}
	if err := yaml.Unmarshal([]byte(right), &value); err != nil {
		return "", nil, nil, fmt.Errorf("the value of %q: %w", left, err)
	}
	return pool, strings.Split(strings.TrimPrefix(rest, "spec."), "."), value, nil
}

// set returns the NodePool with a field of its spec set. The error names a field that there is not.
func set(np *karpenterv1.NodePool, field []string, value any) (*karpenterv1.NodePool, error) {
	tree, err := treeOf(np)
	if err != nil {
		return nil, err
	}
	at, _ := tree["spec"].(map[string]any)
	for i, key := range field {
		if i == len(field)-1 {
			if at[key] = value; value == nil {
				delete(at, key)
			}
			break
		}
		next, is := at[key].(map[string]any)
		if !is && at[key] != nil {
			return nil, fmt.Errorf("spec.%s is no object, so it has no field %s", strings.Join(field[:i+1], "."), field[i+1])
		}
		if next == nil {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	return poolOf(tree)
}

// treeOf returns a NodePool as JSON has it.
func treeOf(np *karpenterv1.NodePool) (map[string]any, error) {
	b, err := json.Marshal(np)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	return tree, json.Unmarshal(b, &tree)
}

// differences says which fields of the spec differ between two NodePools.
func differences(was, is *karpenterv1.NodePool) []string {
	a, err1 := treeOf(was)
	b, err2 := treeOf(is)
	if err1 != nil || err2 != nil { // what was read of an API server can be written
		return nil
	}
	var out []string
	compare("NodePool "+is.Name+": spec", a["spec"], b["spec"], &out)
	return out
}

func compare(at string, a, b any, out *[]string) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if isX && isY {
		keys := map[string]bool{}
		for k := range x {
			keys[k] = true
		}
		for k := range y {
			keys[k] = true
		}
		for _, k := range sortedKeys(keys) {
			compare(at+"."+k, x[k], y[k], out)
		}
		return
	}
	if x, y := elements(a), elements(b); x != nil && y != nil {
		for _, e := range x {
			if !slices.Contains(y, e) {
				*out = append(*out, fmt.Sprintf("%s: - %s", at, e))
			}
		}
		for _, e := range y {
			if !slices.Contains(x, e) {
				*out = append(*out, fmt.Sprintf("%s: + %s", at, e))
			}
		}
		return
	}
	if was, is := brief(a), brief(b); was != is {
		*out = append(*out, fmt.Sprintf("%s: %s → %s", at, was, is))
	}
}

// elements returns those of a list on one line each; nil: it is no list.
func elements(v any) (out []string) {
	list, is := v.([]any)
	if !is {
		return nil
	}
	out = []string{}
	for _, e := range list {
		out = append(out, brief(e))
	}
	return out
}

// brief returns a value on one line.
func brief(v any) string {
	if v == nil {
		return "(unset)"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return strings.Trim(string(b), `"`)
}
