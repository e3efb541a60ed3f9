// Command crdtweak finishes the CRDs that controller-gen writes: it adds the
// rules for fields whose Go types are not ours (taints, conditions, the values
// of label maps, quantities), where no marker can stand, and the version v1beta1
// of the kinds that had one: the schema of v1, but for some defaults.
// Usage: crdtweak DIR.
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
// schema of a version. A null in set removes the field.
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
			err = finish(file)
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

// older returns, by file, what is otherwise in v1beta1 than in v1. All fields that mean something are
// fields of both: the API server changes nothing but apiVersion between them.
func older() map[string][]tweak {
	noDefault := map[string]any{"default": nil}
	options := "properties.spec.properties.metadataOptions"
	template := "properties.spec.properties.template.properties.spec.properties"
	return map[string][]tweak{
		"karpenter.sh_nodepools.yaml": {
			{template + ".expireAfter", noDefault},
			{template, map[string]any{"resources": map[string]any{ // v1 has it no longer, and nobody ever read it
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}}},
		},
		"karpenter.sh_nodeclaims.yaml": {{"properties.spec.properties.expireAfter", noDefault}},
		"karpenter.k8s.aws_ec2nodeclasses.yaml": {
			{options, map[string]any{"default": map[string]any{
				"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "required",
			}}},
			{options + ".properties.httpPutResponseHopLimit", map[string]any{"default": 2}},
		},
	}
}

// finish rewrites the CRD in a file.
func finish(path string) error {
	in, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(in, &crd); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	version, err := onlyVersion(crd)
	if err == nil {
		err = apply(version, tweaks()[filepath.Base(path)])
	}
	if changes, ok := older()[filepath.Base(path)]; ok && err == nil {
		err = addOlder(crd, version, changes)
	}
	if err != nil {
		return fmt.Errorf("tweak %s: %w", path, err)
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	out = bytes.ReplaceAll(out, []byte(anyExponent), []byte(shortExponent))
	return os.WriteFile(path, append([]byte("---\n"), bytes.TrimPrefix(out, []byte("---\n"))...), 0o644)
}

// addOlder adds v1beta1 behind v1 to a CRD, and says that no webhook converts: applied over a CRD
// that has one, this is an error, and not a webhook that stays and fails.
func addOlder(crd, v1 map[string]any, changes []tweak) error {
	text, err := yaml.Marshal(v1)
	if err != nil {
		return err
	}
	var version map[string]any
	if err := yaml.Unmarshal(text, &version); err != nil {
		return err
	}
	spec := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	version["name"], version["storage"], version["deprecated"] = "v1beta1", false, true
	version["deprecationWarning"] = fmt.Sprintf("%v/v1beta1 %v is deprecated; use %[1]v/v1 %[2]v: dovetail convert -f FILE writes it", spec["group"], names["kind"])
	spec["conversion"] = map[string]any{"strategy": "None"}
	spec["versions"] = []any{v1, version}
	return apply(version, changes)
}

// onlyVersion returns the only version of a CRD that controller-gen has written.
func onlyVersion(crd map[string]any) (map[string]any, error) {
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) != 1 {
		return nil, fmt.Errorf("%d versions, want 1", len(versions))
	}
	version, _ := versions[0].(map[string]any)
	return version, nil
}

// apply changes the schema of a version.
func apply(version map[string]any, tweaks []tweak) error {
	for _, t := range tweaks {
		node, err := walk(version, t.path)
		if err != nil {
			return err
		}
		for k, v := range t.set {
			if v == nil {
				delete(node, k)
				continue
			}
			node[k] = v
		}
	}
	return nil
}

// walk returns the node at a dotted path below the schema of a version.
func walk(version map[string]any, path string) (map[string]any, error) {
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
