package crd

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Definitions returns the CRDs of Files.
func Definitions() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Kind returns the kind that a CRD defines.
func Kind(definition *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	return kind
}

// SameSchemas reports whether two CRDs have the same versions, with the same schemas.
func SameSchemas(a, b *unstructured.Unstructured) bool { return maps.Equal(schemas(a), schemas(b)) }

// schemas returns the schema of each version, in one form.
func schemas(definition *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			text, err := json.Marshal(v["schema"])
			if err != nil {
				text = []byte(err.Error())
			}
			out[fmt.Sprint(v["name"])] = string(text)
		}
	}
	return out
}
