package convert

import (
	"fmt"
	"maps"
	"slices"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// renames are labels and annotations that workloads and Nodes use, and what took their place.
var renames = map[string]string{ //nolint:gochecknoglobals // a constant that Go cannot spell
	olderPoolLabel:                            karpenterv1.NodePoolLabelKey,
	karpenterv1.DoNotEvictAnnotationKey:       karpenterv1.DoNotDisruptAnnotationKey,
	karpenterv1.DoNotConsolidateAnnotationKey: karpenterv1.DoNotDisruptAnnotationKey,
}

// Scan returns where an object names labels and annotations of older versions.
func Scan(o *Object) []Note {
	c := &converter{about: o.String()}
	c.rename("", o.Content)
	return c.out.Notes
}

// other renames labels and annotations in an object of any other kind.
func (c *converter) other(o map[string]any) { c.rename("", o) }

// rename walks a value: the keys of maps, and the values of key and topologyKey.
func (c *converter) rename(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			value, isText := v[key].(string)
			if newer, old := renames[value]; isText && old && (key == "key" || key == "topologyKey") {
				v[key] = newer
				c.note(Changed, join(path, key), "%s, was %s", newer, value)
			}
			if newer, old := renames[key]; old {
				if _, both := v[newer]; !both {
					v[newer] = v[key]
				}
				delete(v, key)
				c.note(Changed, join(path, newer), "was %s", key)
				continue
			}
			c.rename(join(path, key), v[key])
		}
	case []any:
		for i := range v {
			c.rename(fmt.Sprintf("%s[%d]", path, i), v[i])
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
