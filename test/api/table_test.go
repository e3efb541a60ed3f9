package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// kind is one kind and the table of its constraints.
type kind struct {
	crd      string // file in config/crd
	resource schema.GroupVersionResource
	base     string // a valid object, without a name
	entries  map[string]entry
}

// kinds lists every kind that a CRD of ours defines.
var kinds = []kind{nodePool, nodeClaim, nodeOverlay, capacityBuffer, kwokNodeClass, ec2NodeClass, clusterAPINodeClass}

// entry is one constraint, keyed in its table by "<path> <constraint>", as in
// "spec.weight minimum". A path writes "[]" for the items of a list and "{}" for the
// values of a map. Rules in CEL are keyed by "<path> rule <message>".
type entry struct {
	// at is where accept and refuse are put into the base object; by default the
	// path of the key, which then has neither "[]" nor "{}".
	at string
	// accept and refuse are YAML; maps are merged into what is there, and "null"
	// removes it. A default has no refuse: accept is what is read back when at is absent.
	accept, refuse string
	// field is the one that the refusal must name; by default at.
	field string
	// why must stand in the refusal's message; by default a rule's own message.
	why string
	// update says that the two are put to an object that exists, instead of a new one;
	// from is what that object has at at.
	update bool
	from   string
}

func (k kind) object(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k.base), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetName(name)
	return u
}

// with returns a copy of u in which value (YAML) is merged in at a path.
func with(t *testing.T, u *unstructured.Unstructured, at, value string) *unstructured.Unstructured {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	for _, step := range slices.Backward(strings.Split(at, ".")) {
		v = map[string]any{step: v}
	}
	return &unstructured.Unstructured{Object: merge(u.DeepCopy().Object, v).(map[string]any)}
}

// merge merges b into a: maps key by key, nil removes, anything else replaces.
func merge(a, b any) any {
	from, ok := b.(map[string]any)
	if !ok {
		return b
	}
	to, ok := a.(map[string]any)
	if !ok {
		to = map[string]any{}
	}
	for k, v := range from {
		if v == nil {
			delete(to, k)
			continue
		}
		to[k] = merge(to[k], v)
	}
	return to
}

func (k kind) client(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(server(t))
	if err != nil {
		t.Fatal(err)
	}
	if k.resource == capacityBuffer.resource {
		return client.Resource(k.resource).Namespace("default")
	}
	return client.Resource(k.resource)
}

func TestConstraints(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		client := k.client(t)
		for key, e := range k.entries {
			t.Run(k.resource.Resource+" "+key, func(t *testing.T) {
				t.Parallel()
				e := e.complete(key)
				if e.refuse == "" {
					checkDefault(t, client, k, e)
					return
				}
				checkRefusal(t, client, k, e)
			})
		}
	}
}

// complete fills in what an entry leaves to its key.
func (e entry) complete(key string) entry {
	path, constraint, _ := strings.Cut(key, " ")
	if e.at == "" {
		e.at = path
	}
	if e.field == "" {
		e.field = e.at
	}
	if message, ok := strings.CutPrefix(constraint, "rule "); ok && e.why == "" {
		e.why = message
	}
	return e
}

func checkDefault(t *testing.T, client dynamic.ResourceInterface, k kind, e entry) {
	t.Helper()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	u := k.object(t, "default")
	unstructured.RemoveNestedField(u.Object, strings.Split(e.at, ".")...)
	if e.from != "" {
		u = with(t, u, e.at, e.from)
	}
	got, err := client.Create(t.Context(), u, dry)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := unstructured.NestedFieldCopy(got.Object, strings.Split(e.at, ".")...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var want, is any // both by way of YAML, which knows one kind of number
	if err := errors.Join(yaml.Unmarshal([]byte(e.accept), &want), yaml.Unmarshal(text, &is)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("default of %s (-want +got):\n%s", e.at, diff)
	}
}

func checkRefusal(t *testing.T, client dynamic.ResourceInterface, k kind, e entry) {
	t.Helper()
	put := func(u *unstructured.Unstructured) error {
		_, err := client.Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	base := k.object(t, "entry")
	if e.update {
		base.SetName("")
		base.SetGenerateName("entry-")
		var err error
		if base, err = client.Create(t.Context(), with(t, base, e.at, e.from), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		put = func(u *unstructured.Unstructured) error {
			_, err := client.Update(t.Context(), u, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			return err
		}
	}
	if err := put(with(t, base, e.at, e.accept)); err != nil {
		t.Errorf("%s: %s is refused: %v", e.at, e.accept, err)
	}
	err := put(with(t, base, e.at, e.refuse))
	if err == nil {
		t.Fatalf("%s: %s is accepted", e.at, e.refuse)
	}
	for _, c := range causes(err) {
		if c.Field == e.field && strings.Contains(c.Message, e.why) {
			return
		}
	}
	t.Errorf("%s: %s is refused with %v\nwhich does not name %s and say %q", e.at, e.refuse, causes(err), e.field, e.why)
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return []metav1.StatusCause{{Message: err.Error()}}
	}
	return status.Status().Details.Causes
}

func TestEveryConstraintHasAnEntry(t *testing.T) {
	t.Parallel()
	definitions, err := crds()
	if err != nil {
		t.Fatal(err)
	}
	if len(definitions) != len(kinds) {
		t.Errorf("%d CRDs, %d kinds: each needs a table", len(definitions), len(kinds))
	}
	for _, k := range kinds {
		versions, _, err := unstructured.NestedSlice(definitions[k.crd].Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		root, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		constraints("", root, want)
		for _, missing := range slices.Sorted(maps.Keys(want)) {
			if _, ok := k.entries[missing]; !ok {
				t.Errorf("%s: no entry for %q", k.resource.Resource, missing)
			}
		}
		for _, stale := range slices.Sorted(maps.Keys(k.entries)) {
			if !want[stale] {
				t.Errorf("%s: the schema has no %q", k.resource.Resource, stale)
			}
		}
	}
}

// constraints collects the constraints of a schema node and all below it, but not
// those of the status, which only we write: the few that matter have tests of their own.
func constraints(path string, node map[string]any, into map[string]bool) {
	for _, c := range []string{"pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "default"} {
		if _, ok := node[c]; ok {
			into[path+" "+c] = true
		}
	}
	properties, _ := node["properties"].(map[string]any)
	required, _ := node["required"].([]any)
	for _, field := range required {
		child, _ := properties[fmt.Sprint(field)].(map[string]any)
		if child["default"] == nil { // what has a default is never missing
			into[join(path, fmt.Sprint(field))+" required"] = true
		}
	}
	if node["x-kubernetes-list-type"] == "set" {
		into[path+" set"] = true
	}
	if rules, ok := node["x-kubernetes-validations"].([]any); ok {
		for _, r := range rules {
			into[fmt.Sprintf("%s rule %s", path, r.(map[string]any)["message"])] = true
		}
	}
	for name, child := range properties {
		if path != "" || name != "status" {
			constraints(join(path, name), child.(map[string]any), into)
		}
	}
	if items, ok := node["items"].(map[string]any); ok {
		constraints(path+"[]", items, into)
	}
	if values, ok := node["additionalProperties"].(map[string]any); ok {
		constraints(path+"{}", values, into)
	}
}

func join(path, name string) string {
	return strings.TrimPrefix(path+"."+name, ".")
}

// typed reads an object into a type of api/.
func typed[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}
