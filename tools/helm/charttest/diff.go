package charttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Difference says what one rendering has otherwise than another, a line a field.
func Difference(before, after Output) (string, error) {
	var out strings.Builder
	for _, o := range before.Objects {
		if after.Find(Key(o)) == nil {
			fmt.Fprintf(&out, "- %s\n", Key(o))
		}
	}
	for _, o := range after.Objects {
		was := before.Find(Key(o))
		if was == nil {
			text, err := yaml.Marshal(withoutUsual(o).Object)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "+ %s\n", Key(o))
			for line := range strings.Lines(string(text)) {
				fmt.Fprintf(&out, "    %s", line)
			}
			continue
		}
		a, b := map[string]string{}, map[string]string{}
		flatten("", was.Object, a)
		flatten("", o.Object, b)
		all := maps.Clone(a)
		maps.Copy(all, b)
		for _, path := range slices.Sorted(maps.Keys(all)) {
			switch from, to := a[path], b[path]; {
			case from == to:
			case from == "":
				fmt.Fprintf(&out, "%s: %s is %s\n", Key(o), path, to)
			case to == "":
				fmt.Fprintf(&out, "%s: %s is gone\n", Key(o), path)
			default:
				fmt.Fprintf(&out, "%s: %s is %s, was %s\n", Key(o), path, to, from)
			}
		}
	}
	return out.String(), nil
}

// withoutUsual returns an object without what its key says and what every object has.
func withoutUsual(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	delete(o.Object, "kind")
	meta := o.Object["metadata"].(map[string]any)
	delete(meta, "name")
	delete(meta, "namespace")
	if labels, ok := meta["labels"].(map[string]any); ok {
		maps.DeleteFunc(labels, func(key string, _ any) bool {
			return key == "helm.sh/chart" || strings.HasPrefix(key, "app.kubernetes.io/")
		})
		if len(labels) == 0 {
			delete(meta, "labels")
		}
	}
	if len(meta) == 0 {
		delete(o.Object, "metadata")
	}
	return o
}

// flatten writes every field with its path. Elements of a list are called by their name, if they have
// one; elements without, and lists of simple values, are values.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if strings.ContainsAny(key, "./") {
				key = "[" + key + "]"
			}
			flatten(strings.TrimPrefix(path+"."+key, "."), child, into)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		named := len(v) > 0
		for _, child := range v {
			m, ok := child.(map[string]any)
			named = named && ok && m["name"] != nil
		}
		if named {
			for _, child := range v {
				m := maps.Clone(child.(map[string]any))
				name := m["name"]
				delete(m, "name")
				flatten(fmt.Sprintf("%s[%v]", path, name), m, into)
			}
			return
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	into[path] = string(text)
}
