package clusterapi

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fields is a part of an object that was read as it is. Its methods return zero values for what is
// missing or is of another form.
type fields map[string]any

func (f fields) at(path ...string) fields {
	found, _, _ := unstructured.NestedFieldNoCopy(f, path...)
	m, _ := found.(map[string]any)
	return m
}

func (f fields) text(path ...string) string {
	s, _, _ := unstructured.NestedString(f, path...)
	return s
}

func (f fields) flag(path ...string) bool {
	b, _, _ := unstructured.NestedBool(f, path...)
	return b
}

// number returns an integer, however it was encoded.
func (f fields) number(path ...string) int64 {
	switch n, _, _ := unstructured.NestedFieldNoCopy(f, path...); n := n.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// list returns the entries of a list that are objects.
func (f fields) list(path ...string) (all []fields) {
	found, _, _ := unstructured.NestedFieldNoCopy(f, path...)
	entries, _ := found.([]any)
	for _, e := range entries {
		if m, ok := e.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// texts returns the entries of a map that are strings.
func (f fields) texts(path ...string) map[string]string {
	all := map[string]string{}
	for key, value := range f.at(path...) {
		if s, ok := value.(string); ok {
			all[key] = s
		}
	}
	return all
}

// reference names an object in the namespace of the object that refers to it.
type reference struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// String returns kind/name.
func (r reference) String() string { return r.Kind + "/" + r.Name }

// groupKind returns what kind of object it is.
func (r reference) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// referenceAt reads a reference: that of v1beta2 has a group, that of v1beta1 a group and a version.
func (f fields) referenceAt(path ...string) (reference, bool) {
	at := f.at(path...)
	r := reference{Group: at.text("apiGroup"), Kind: at.text("kind"), Name: at.text("name")}
	if v, err := schema.ParseGroupVersion(at.text("apiVersion")); r.Group == "" && err == nil {
		r.Group = v.Group
	}
	return r, r.Kind != "" && r.Name != ""
}

// referenceTo returns a reference in the form of a version of Cluster API.
func referenceTo(object *unstructured.Unstructured, version string) map[string]any {
	gvk := object.GroupVersionKind()
	if version == "v1beta1" {
		return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": object.GetName(), "namespace": object.GetNamespace()}
	}
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": object.GetName()}
}

// condition is what is needed of a condition, in the form of either version.
type condition struct{ Type, Status, Reason, Message, Severity string }

// conditions returns all conditions of an object: those of its own version, and those that it still
// has in the form of v1beta1.
func conditions(object fields) (all []condition) {
	for _, path := range [][]string{{"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"}, {"status", "v1beta2", "conditions"}} {
		for _, c := range object.list(path...) {
			all = append(all, condition{c.text("type"), c.text("status"), c.text("reason"), c.text("message"), c.text("severity")})
		}
	}
	return all
}

// pairs reads "key=value,…".
func pairs(text string) (map[string]string, error) {
	all := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value", part)
		}
		all[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return all, nil
}
