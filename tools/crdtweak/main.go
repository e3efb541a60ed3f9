// Command crdtweak finishes the CRDs that controller-gen writes: it adds the
// rules for fields whose Go types are not ours (taints, conditions, the values
// of label maps, quantities), where no marker can stand. Usage: crdtweak DIR.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	qualifiedName   = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	labelValue      = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	anyExponent     = `([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+)))`
	conditionReason = `^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$`
	// shortExponent stands for anyExponent in the pattern of quantities: clients that read 1E2000000000
	// work out all its digits, for hours.
	shortExponent = `([eE](\+|-)?[0-9]{1,3})`
)

// tweak changes the schema node at path, a dotted walk that starts at the
// schema of the CRD's only version. A null in set removes the field.
type tweak struct {
	path string
	set  map[string]any
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdtweak DIR")
		os.Exit(2)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.yaml"))
	for _, file := range files {
		if err == nil {
			err = apply(file, tweaks()[filepath.Base(file)])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crdtweak:", err)
		os.Exit(1)
	}
}

func tweaks() map[string][]tweak {
	template := "properties.spec.properties.template.properties."
	pool := taints(template + "spec.properties.")
	pool = append(pool, tweak{template + "metadata.properties.labels.additionalProperties", map[string]any{
		"maxLength": 63, "pattern": labelValue,
	}})
	claim := taints("properties.spec.properties.")
	conditions := "properties.status.properties.conditions.items"
	claim = append(claim,
		tweak{conditions, map[string]any{"required": []string{"lastTransitionTime", "status", "type"}}},
		tweak{conditions + ".properties.reason", map[string]any{"pattern": conditionReason, "minLength": nil}},
	)
	return map[string][]tweak{
		"karpenter.sh_nodepools.yaml":  pool,
		"karpenter.sh_nodeclaims.yaml": claim,
	}
}

// taints returns the rules for the two lists of taints of the spec at prefix.
func taints(prefix string) []tweak {
	var out []tweak
	for _, list := range []string{"taints", "startupTaints"} {
		fields := prefix + list + ".items.properties."
		out = append(out,
			tweak{fields + "key", map[string]any{"minLength": 1, "pattern": qualifiedName}},
			tweak{fields + "value", map[string]any{"pattern": qualifiedName}},
			tweak{fields + "effect", map[string]any{"enum": []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}}},
		)
	}
	return out
}

func apply(path string, tweaks []tweak) error {
	in, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(in, &crd); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, t := range tweaks {
		node, err := walk(crd, t.path)
		if err != nil {
			return fmt.Errorf("tweak %s: %w", path, err)
		}
		for k, v := range t.set {
			if v == nil {
				delete(node, k)
				continue
			}
			node[k] = v
		}
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	out = bytes.ReplaceAll(out, []byte(anyExponent), []byte(shortExponent))
	return os.WriteFile(path, append([]byte("---\n"), bytes.TrimPrefix(out, []byte("---\n"))...), 0o644)
}

// walk returns the node at a dotted path below the schema of the only version.
func walk(crd map[string]any, path string) (map[string]any, error) {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) != 1 {
		return nil, fmt.Errorf("%d versions, want 1", len(versions))
	}
	version, _ := versions[0].(map[string]any)
	node := version
	for step := range strings.SplitSeq("schema.openAPIV3Schema."+path, ".") {
		next, ok := node[step].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("nothing at %q of %s", step, path)
		}
		node = next
	}
	return node, nil
}
