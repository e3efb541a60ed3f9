package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is what is shown of a field's schema.
type schema struct {
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
	Required             []string          `json:"required"`
	Default              json.RawMessage   `json:"default"`
	Enum                 []any             `json:"enum"`
	Pattern              string            `json:"pattern"`
	Minimum              *float64          `json:"minimum"`
	Maximum              *float64          `json:"maximum"`
	MinItems             *int              `json:"minItems"`
	MaxItems             *int              `json:"maxItems"`
	IntOrString          bool              `json:"x-kubernetes-int-or-string"`
	Rules                []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// definition is what is shown of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
			Schema struct {
				Schema schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// fieldsPage is the reference of the kinds' fields.
func fieldsPage(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Fields\n\nThe fields of all kinds, as `dovetail crds` prints their definitions and as `kubectl explain` shows them. `[]` is an entry of a list, `*` a key of a map.\n" +
		"`make pages` writes this page from the definitions, and a test compares them.\n")
	paths, err := filepath.Glob(filepath.Join(root, "config/crd/*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, v := range d.Spec.Versions {
			if v.Served {
				d.describe(&b, v.Name, v.Schema.Schema)
			}
		}
	}
	return b.Bytes(), nil
}

func (d *definition) describe(b *bytes.Buffer, version string, s schema) {
	names := d.Spec.Names
	fmt.Fprintf(b, "\n## %s %s/%s\n\n%s\n\n", names.Kind, d.Spec.Group, version, cell(s.Description))
	fmt.Fprintf(b, "`kubectl get %s`; %s.\n\n| field | type | meaning |\n|---|---|---|\n", strings.Join(append([]string{names.Plural}, names.ShortNames...), "`, `"), strings.ToLower(d.Spec.Scope))
	for _, part := range []string{"spec", "status"} {
		if sub, there := s.Properties[part]; there {
			rows(b, part, sub, slices.Contains(s.Required, part))
		}
	}
}

// rows writes a row for a field and all below it. Of types that Kubernetes defines, and that are a whole
// API in themselves, only the field.
func rows(b *bytes.Buffer, path string, s schema, required bool) {
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", path, kind(s), strings.Join(said(s, required), " "))
	if strings.HasSuffix(path, ".conditions") {
		return
	}
	below := s
	switch {
	case s.Items != nil:
		path, below = path+"[]", *s.Items
	case s.AdditionalProperties != nil:
		path, below = path+".*", *s.AdditionalProperties
	}
	for _, name := range slices.SortedFunc(maps.Keys(below.Properties), cmp.Compare[string]) {
		rows(b, path+"."+name, below.Properties[name], slices.Contains(below.Required, name))
	}
}

func kind(s schema) string {
	switch {
	case s.IntOrString:
		return "number or text"
	case s.Items != nil:
		return "list of " + kind(*s.Items)
	case s.AdditionalProperties != nil:
		return "map of " + kind(*s.AdditionalProperties)
	case s.Format != "" && s.Type == "string":
		return "text, " + s.Format
	}
	return map[string]string{"string": "text", "object": "object", "integer": "integer", "number": "number", "boolean": "true or false"}[s.Type]
}

// said returns what is said of a field: its meaning, then its rules.
func said(s schema, required bool) (all []string) {
	if text := cell(s.Description); text != "" {
		all = append(all, strings.TrimSuffix(text, ".")+".")
	}
	if required {
		all = append(all, "**Required.**")
	}
	if len(s.Default) > 0 {
		all = append(all, "Default: `"+string(s.Default)+"`.")
	}
	of := s
	if s.Items != nil && len(s.Items.Properties) == 0 {
		of = *s.Items
	}
	if len(of.Enum) > 0 {
		var values []string
		for _, v := range of.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		all = append(all, "One of "+strings.Join(values, ", ")+".")
	}
	for _, bound := range []struct {
		name string
		is   any
	}{{"At least", number(of.Minimum)}, {"At most", number(of.Maximum)}, {"Fewest entries:", number(s.MinItems)}, {"Most entries:", number(s.MaxItems)}} {
		if bound.is != nil {
			all = append(all, fmt.Sprintf("%s %v.", bound.name, bound.is))
		}
	}
	for _, r := range s.Rules {
		if r.Message != "" {
			all = append(all, "Rule: "+cell(strings.TrimSuffix(r.Message, "."))+".")
		}
	}
	return all
}

// number returns a bound, or nil where there is none.
func number[N int | float64](n *N) any {
	if n == nil {
		return nil
	}
	return *n
}
