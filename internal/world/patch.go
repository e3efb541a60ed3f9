package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch changes an object as a patch says, its status or all but that.
func (a *api) patch(obj client.Object, kind types.PatchType, data []byte, status bool) (client.Object, error) {
	name := kindName(obj)
	was := a.shelf(name).get(keyOf(obj))
	if was == nil {
		return nil, apierrors.NewNotFound(resourceOf(name), obj.GetName())
	}
	var is client.Object
	var err error
	if kind == types.MergePatchType {
		is, err = merged(was, data, status)
	} else {
		is, err = patched(was, data, status)
	}
	if err != nil {
		return nil, err
	}
	if was.GetDeletionTimestamp() != nil && slices.ContainsFunc(is.GetFinalizers(), func(f string) bool { return !slices.Contains(was.GetFinalizers(), f) }) {
		return nil, apierrors.NewInvalid(was.GetObjectKind().GroupVersionKind().GroupKind(), was.GetName(), nil)
	}
	is.SetResourceVersion(was.GetResourceVersion())
	a.replace(name, was, is)
	if now := a.shelf(name).get(keyOf(obj)); now != nil {
		return now, nil
	}
	return is, nil
}

// patched applies a JSON patch.
func patched(was client.Object, data []byte, status bool) (client.Object, error) {
	before, err := json.Marshal(withoutUnasked(was, data, status))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", was.GetName(), err)
	}
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	after, err := ops.Apply(before)
	if err != nil {
		return nil, apierrors.NewInvalid(was.GetObjectKind().GroupVersionKind().GroupKind(), was.GetName(), nil)
	}
	is := reflect.New(reflect.TypeOf(was).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, is); err != nil {
		return nil, fmt.Errorf("read what was patched: %w", err)
	}
	if status {
		kept := shallow(was)
		copyStatus(kept, is)
		return kept, nil
	}
	copyStatus(is, was)
	return is, nil
}

// withoutUnasked returns an object without its spec or its status, whichever is not patched, unless
// a test asks for it: it need not be written out and read.
func withoutUnasked(o client.Object, data []byte, status bool) client.Object {
	field, path := "Status", "/status"
	if status {
		field, path = "Spec", "/spec"
	}
	o = shallow(o)
	if f := reflect.ValueOf(o).Elem().FieldByName(field); f.IsValid() && !bytes.Contains(data, []byte(path)) {
		f.SetZero()
	}
	return o
}

func copyStatus(into, from client.Object) {
	if f := reflect.ValueOf(from).Elem().FieldByName("Status"); f.IsValid() {
		reflect.ValueOf(into).Elem().FieldByName("Status").Set(f)
	}
}

// merged applies a merge patch, which may ask for a version of the object.
func merged(was client.Object, data []byte, status bool) (client.Object, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	var lock struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	if meta := parts["metadata"]; bytes.Contains(meta, []byte("resourceVersion")) {
		if err := json.Unmarshal(meta, &lock); err != nil {
			return nil, fmt.Errorf("read patch: %w", err)
		}
	}
	if v := lock.ResourceVersion; v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(kindOf(was)), was.GetName(), errors.New("it has changed since it was read"))
	}
	is := shallow(was)
	for name, part := range parts {
		if (name == "status") != status {
			continue
		}
		if at, ok := fieldsOf(reflect.TypeOf(was).Elem())[name]; ok {
			if err := merge(reflect.ValueOf(is).Elem().FieldByIndex(at), part); err != nil {
				return nil, fmt.Errorf("apply patch to %s of %s: %w", name, was.GetName(), err)
			}
		}
	}
	return is, nil
}

var null = []byte("null") //nolint:gochecknoglobals // a constant

// merge applies a part of a merge patch to a part of an object, without writing either out. What
// the part points to belongs to others too, and is replaced.
func merge(into reflect.Value, part json.RawMessage) error {
	if bytes.Equal(part, null) {
		into.SetZero()
		return nil
	}
	_, reads := into.Addr().Interface().(json.Unmarshaler)
	switch kind := into.Kind(); {
	case !reads && kind == reflect.Struct:
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(part, &parts); err != nil {
			return err
		}
		fields := fieldsOf(into.Type())
		for name, p := range parts {
			if at, ok := fields[name]; ok {
				if err := merge(into.FieldByIndex(at), p); err != nil {
					return err
				}
			}
		}
		return nil
	case !reads && kind == reflect.Map:
		return mergeMap(into, part)
	case kind == reflect.Pointer && !into.IsNil():
		mine := reflect.New(into.Type().Elem())
		mine.Elem().Set(into.Elem())
		into.Set(mine)
		return merge(mine.Elem(), part)
	default:
		into.SetZero() // or what is read mixes with what there was
		return json.Unmarshal(part, into.Addr().Interface())
	}
}

func mergeMap(into reflect.Value, part json.RawMessage) error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(part, &parts); err != nil {
		return err
	}
	mine := reflect.MakeMapWithSize(into.Type(), into.Len()+len(parts))
	for had := into.MapRange(); had.Next(); {
		mine.SetMapIndex(had.Key(), had.Value())
	}
	into.Set(mine)
	for name, p := range parts {
		key := reflect.ValueOf(name).Convert(into.Type().Key())
		if bytes.Equal(p, null) {
			into.SetMapIndex(key, reflect.Value{})
			continue
		}
		value := reflect.New(into.Type().Elem()).Elem()
		if had := into.MapIndex(key); had.IsValid() {
			value.Set(had)
		}
		if err := merge(value, p); err != nil {
			return err
		}
		into.SetMapIndex(key, value)
	}
	if into.Len() == 0 {
		into.SetZero() // as it is read where it is left out
	}
	return nil
}

// fields are where a struct has what JSON calls by a name.
type fields map[string][]int

var fieldsKnown sync.Map //nolint:gochecknoglobals // by type; types do not change

func fieldsOf(t reflect.Type) fields {
	if known, ok := fieldsKnown.Load(t); ok {
		return known.(fields)
	}
	found := fields{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			for inner, at := range fieldsOf(f.Type) {
				found[inner] = append([]int{i}, at...)
			}
		case name == "":
			found[f.Name] = []int{i}
		default:
			found[name] = []int{i}
		}
	}
	fieldsKnown.Store(t, found)
	return found
}
