package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one value of the chart.
type value struct {
	name     string // its path: settings.clusterName
	text     string // what the comment says
	fallback string // the default, as JSON
	schema   map[string]any
	// children are those of an object whose names are fixed; nil: it is one value, whatever is in it.
	children []value
}

// readValues reads a values.yaml with a comment over each value. In a comment, "@schema {…}" adds to the
// value's JSON schema, and "@open" says that an object takes other names than those of its default.
func readValues(file string) ([]value, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return members("", doc.Content[0])
}

func members(prefix string, node *yaml.Node) ([]value, error) {
	var out []value
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		v := value{name: prefix + key.Value, schema: map[string]any{}}
		isOpen, err := v.comment(key.HeadComment)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		var fallback any
		if err := content.Decode(&fallback); err != nil {
			return nil, err
		}
		text, err := json.Marshal(fallback)
		if err != nil {
			return nil, err
		}
		v.fallback = string(text)
		if content.Kind == yaml.MappingNode && len(content.Content) > 0 && !isOpen {
			if v.children, err = members(v.name+".", content); err != nil {
				return nil, err
			}
		}
		if _, has := v.schema["type"]; !has && v.schema["enum"] == nil {
			v.schema["type"] = typeOf(fallback)
		}
		out = append(out, v)
	}
	return out, nil
}

// comment takes a value's comment: its last paragraph, the earlier ones being headings.
func (v *value) comment(text string) (isOpen bool, err error) {
	paragraphs := strings.Split(text, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if more, is := strings.CutPrefix(line, "@schema "); is {
			if err := json.Unmarshal([]byte(more), &v.schema); err != nil {
				return false, fmt.Errorf("@schema: %w", err)
			}
			continue
		}
		if line == "@open" {
			isOpen = true
			continue
		}
		words = append(words, line)
	}
	v.text = strings.TrimSpace(strings.Join(words, " "))
	return isOpen, nil
}

// typeOf returns the JSON types that a value with this default may have. Texts may be numbers: Helm's
// --set makes one of what looks like one.
func typeOf(fallback any) any {
	switch fallback.(type) {
	case map[string]any:
		return []string{"object", "null"}
	case []any:
		return []string{"array", "null"}
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	default:
		return []string{"string", "number", "null"}
	}
}

// old is a value that Karpenter's charts had once.
type old struct {
	Old     string
	New     string
	Dropped string
}

func readOld(file string) ([]old, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []old
	if err := yaml.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return out, nil
}

// schema returns the JSON schema of the values. It leaves names open: the templates refuse unknown ones,
// and name the nearest, which a schema cannot.
func schema(values []value, olds []old) map[string]any {
	root := object(values)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "values of the chart karpenter"
	for _, o := range olds {
		at, parts := root, strings.Split(o.Old, ".")
		for i, part := range parts {
			properties, _ := at["properties"].(map[string]any)
			if properties == nil {
				properties = map[string]any{}
				at["properties"] = properties
			}
			next, known := properties[part].(map[string]any)
			if !known {
				next = map[string]any{}
				properties[part] = next
			}
			if i == len(parts)-1 {
				next["deprecated"] = true
				switch {
				case o.New != "":
					next["description"] = "Now " + o.New + "."
				case o.Dropped != "":
					next["description"] = "Without effect: " + o.Dropped + "."
				default:
					next["description"] = "Without effect."
				}
			}
			at = next
		}
	}
	return root
}

func object(values []value) map[string]any {
	properties := map[string]any{}
	for _, v := range values {
		s := maps.Clone(v.schema)
		if v.children != nil {
			maps.Copy(s, object(v.children))
		}
		if v.text != "" {
			s["description"] = v.text
		}
		last := v.name[strings.LastIndex(v.name, ".")+1:]
		properties[last] = s
	}
	return map[string]any{"type": "object", "properties": properties}
}

// names returns the paths of all values, and of the objects that they are in.
func names(values []value) map[string]any {
	var objects, leaves []string
	var add func([]value)
	add = func(values []value) {
		for _, v := range values {
			if v.children == nil {
				leaves = append(leaves, v.name)
				continue
			}
			objects = append(objects, v.name)
			add(v.children)
		}
	}
	add(values)
	slices.Sort(objects)
	slices.Sort(leaves)
	return map[string]any{"objects": objects, "values": leaves}
}
