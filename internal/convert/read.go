package convert

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Object is an object as it stands in a manifest.
type Object struct {
	// Where is the file and the document that it was read of.
	Where   string
	Content map[string]any
}

func (o *Object) version() string {
	return text(o.Content["apiVersion"]) + " " + text(o.Content["kind"])
}

// String names the object for people.
func (o *Object) String() string {
	kind, name := text(o.Content["kind"]), text(at(o.Content, "metadata", "name"))
	if namespace := text(at(o.Content, "metadata", "namespace")); namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

var separator = regexp.MustCompile(`(?m)^---[^\n]*\n?`)

// Read reads all objects of a file, those in lists too. The error names the file and the document.
func Read(file string, content []byte) ([]Object, error) {
	var all []Object
	for i, doc := range separator.Split(string(content), -1) {
		where := fmt.Sprintf("%s: document %d", file, i+1)
		data, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, explain(doc, err))
		}
		if bytes.Equal(data, []byte("null")) {
			continue
		}
		var o map[string]any
		if err := utiljson.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("%s: it is no object: %w", where, err)
		}
		objects, err := unlist(where, o)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// unlist returns an object, or those in it if it is a list.
func unlist(where string, o map[string]any) ([]Object, error) {
	if text(o["apiVersion"]) == "" || text(o["kind"]) == "" {
		return nil, fmt.Errorf("%s: has no apiVersion and kind", where)
	}
	items, isList := o["items"].([]any)
	if !isList || !strings.HasSuffix(text(o["kind"]), "List") {
		return []Object{{Where: where, Content: o}}, nil
	}
	var all []Object
	for i, item := range items {
		within := fmt.Sprintf("%s, item %d", where, i)
		o, isMap := item.(map[string]any)
		if !isMap {
			return nil, fmt.Errorf("%s: it is no object", within)
		}
		objects, err := unlist(within, o)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

var flat = regexp.MustCompile(`(?m)^spec:\s*$`)

// explain says more of a document that is no YAML, where its cause is known: text that was copied
// from a page often has lost its indentation.
func explain(doc string, err error) error {
	if len(flat.FindAllString(doc, 2)) == 2 {
		return errors.New("the indentation is lost: spec: stands at the left margin twice; copy the manifest again, with its spaces")
	}
	return err
}

// text returns a value that is a string; empty: it is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}
