package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errUnlockable is returned for an object that was not read from an API server.
var errUnlockable = errors.New("its resource version is not known")

// mergeFrom is client.MergeFrom, and makes the same patch in a fraction of the time: most
// changes are of one field, and only what differs is written out and compared.
func mergeFrom(before client.Object) client.Patch { return mergePatch{before: before} }

// mergeFromSeen is mergeFrom on the condition that nobody has written since the object was read.
func mergeFromSeen(before client.Object) client.Patch {
	return mergePatch{before: before, locked: true}
}

type mergePatch struct {
	before client.Object
	locked bool
}

// Type returns the type of patch.
func (mergePatch) Type() types.PatchType { return types.MergePatchType }

// Data returns the patch that makes what was before into the object.
func (p mergePatch) Data(obj client.Object) ([]byte, error) {
	patch := map[string]any{}
	if p.locked {
		version := p.before.GetResourceVersion()
		if version == "" {
			return nil, fmt.Errorf("lock %s: %w", obj.GetName(), errUnlockable)
		}
		patch["metadata"] = map[string]any{"resourceVersion": version}
	}
	for _, part := range differing(p.before, obj) {
		inner, err := part.patch()
		if err != nil {
			return nil, fmt.Errorf("compare %s of %s: %w", part.name, obj.GetName(), err)
		}
		had, _ := patch[part.name].(map[string]any)
		maps.Copy(inner, had)
		if len(inner) > 0 {
			patch[part.name] = inner
		}
	}
	return json.Marshal(patch)
}

// part is the metadata, spec or status of an object as it was and is, without the fields that
// are the same in both.
type part struct {
	name    string // in JSON
	was, is any
}

// differing returns the parts of two objects of one kind that are not the same.
func differing(before, after client.Object) []part {
	b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	var parts []part
	for i := range b.NumField() {
		if equal(b.Field(i), a.Field(i)) {
			continue
		}
		was, is := reflect.New(b.Field(i).Type()), reflect.New(a.Field(i).Type())
		was.Elem().Set(b.Field(i))
		is.Elem().Set(a.Field(i))
		dropCommon(was.Elem(), is.Elem())
		name, _, _ := strings.Cut(b.Type().Field(i).Tag.Get("json"), ",")
		parts = append(parts, part{name, was.Interface(), is.Interface()})
	}
	return parts
}

// dropCommon empties the fields of two structs that are the same in both.
func dropCommon(was, is reflect.Value) {
	for i := range was.NumField() {
		if equal(was.Field(i), is.Field(i)) {
			was.Field(i).SetZero()
			is.Field(i).SetZero()
		}
	}
}

func equal(a, b reflect.Value) bool {
	return reflect.DeepEqual(a.Addr().Interface(), b.Addr().Interface())
}

// matters tells whether the difference is more than one of form.
func (p part) matters() bool { return !equality.Semantic.DeepEqual(p.was, p.is) }

// patch returns the merge patch of the part.
func (p part) patch() (map[string]any, error) {
	was, err := json.Marshal(p.was)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(p.is)
	if err != nil {
		return nil, err
	}
	return difference(was, is)
}

// difference returns the merge patch from one JSON object to another.
func difference(from, to []byte) (map[string]any, error) {
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(from, &was), json.Unmarshal(to, &is)); err != nil {
		return nil, err
	}
	patch := map[string]any{}
	for name := range was {
		if _, still := is[name]; !still {
			patch[name] = nil
		}
	}
	for name, has := range is {
		had, known := was[name]
		switch {
		case bytes.Equal(had, has):
		case known && had[0] == '{' && has[0] == '{':
			inner, err := difference(had, has)
			if err != nil {
				return nil, err
			}
			if len(inner) > 0 {
				patch[name] = inner
			}
		default:
			var value any // which is written with its keys in order
			if err := json.Unmarshal(has, &value); err != nil {
				return nil, err
			}
			patch[name] = value
		}
	}
	return patch, nil
}
