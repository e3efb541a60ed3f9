package apply

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mergeFrom is client.MergeFrom, which writes both objects out whole, and reads them again, to
// find that one field changed. This one compares the objects and writes out what differs: the
// same patch in a fraction of the time.
func mergeFrom(before client.Object) client.Patch { return mergePatch{before: before} }

// mergeFromSeen is mergeFrom on the condition that nobody has written since the object was read.
func mergeFromSeen(before client.Object) client.Patch { return mergePatch{before: before, seen: true} }

type mergePatch struct {
	before client.Object
	seen   bool
}

// Type is that of a merge patch.
func (mergePatch) Type() types.PatchType { return types.MergePatchType }

// Data returns the patch that makes what was before into the object.
func (p mergePatch) Data(obj client.Object) ([]byte, error) {
	was, is := shallow(p.before), shallow(obj)
	if p.seen {
		was.SetResourceVersion("")
		is.SetResourceVersion(p.before.GetResourceVersion())
		if is.GetResourceVersion() == "" {
			return nil, fmt.Errorf("%s has no version that it could have been read at", obj.GetName())
		}
	}
	return appendStruct(nil, reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem())
}

// shallow returns a copy of an object that shares what it points to.
func shallow(o client.Object) client.Object {
	mine := reflect.New(reflect.TypeOf(o).Elem())
	mine.Elem().Set(reflect.ValueOf(o).Elem())
	return mine.Interface().(client.Object)
}

// send sends a patch of an object, but for its status.
func send(ctx context.Context, c client.Client, obj client.Object, patch client.Patch) error {
	made, err := cut(obj, patch)
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj, made)
}

// sendStatus sends a patch of an object's status.
func sendStatus(ctx context.Context, c client.Client, obj client.Object, patch client.Patch) error {
	made, err := cut(obj, patch)
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, obj, made)
}

// cut makes a patch of an object while that still shares with what it was before all that is the
// same, which is then compared at once. After that the object shares nothing: the answer of the
// API server is read into it.
func cut(obj client.Object, patch client.Patch) (client.Patch, error) {
	data, err := patch.Data(obj)
	if err != nil {
		return nil, err
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
	return client.RawPatch(patch.Type(), data), nil
}

// isSame tells whether two objects mean the same. Nearly all of their fields are equal in the
// strict way, which is much faster than Kubernetes' own.
func isSame(before, after client.Object) bool {
	b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	for part := range b.NumField() {
		for field := range b.Field(part).NumField() {
			had, has := b.Field(part).Field(field).Addr().Interface(), a.Field(part).Field(field).Addr().Interface()
			if !reflect.DeepEqual(had, has) && !equality.Semantic.DeepEqual(had, has) {
				return false
			}
		}
	}
	return true
}

// unchanged is the merge patch of what is the same.
var unchanged = []byte("{}") //nolint:gochecknoglobals // a constant

// appendStruct appends the merge patch that makes one struct into another.
func appendStruct(out []byte, was, is reflect.Value) ([]byte, error) {
	var err error
	out = append(out, '{')
	for _, f := range fieldsOf(is.Type()) {
		had, has := was.FieldByIndex(f.at), is.FieldByIndex(f.at)
		if reflect.DeepEqual(had.Addr().Interface(), has.Addr().Interface()) {
			continue
		}
		if out, err = appendMember(out, f.name, present(had, !f.isLeftOut(had)), present(has, !f.isLeftOut(has))); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendMap is appendStruct for maps.
func appendMap(out []byte, was, is reflect.Value) ([]byte, error) {
	keys := is.MapKeys()
	for _, key := range was.MapKeys() {
		if !is.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	out = append(out, '{')
	for _, key := range keys {
		name, err := json.Marshal(key.String())
		if err != nil {
			return nil, err
		}
		if out, err = appendMember(out, string(name)+":", was.MapIndex(key), is.MapIndex(key)); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// present returns a value, or none if it is not there.
func present(v reflect.Value, is bool) reflect.Value {
	if !is {
		return reflect.Value{}
	}
	return v
}

// appendMember appends what a merge patch says of one member of an object, if anything. Values
// that are not there are not valid.
func appendMember(out []byte, name string, was, is reflect.Value) ([]byte, error) {
	from := len(out)
	if out[from-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, name...)
	start := len(out)
	var err error
	switch {
	case !is.IsValid() && !was.IsValid():
		return out[:from], nil
	case !is.IsValid():
		return append(out, "null"...), nil
	case !was.IsValid():
		return appendJSON(out, is)
	}
	for is.Kind() == reflect.Pointer && !is.IsNil() && !was.IsNil() && !writesItself(is.Type()) {
		was, is = was.Elem(), is.Elem()
	}
	switch kind := is.Kind(); {
	case kind == reflect.Struct && was.CanAddr() && !writesItself(is.Type()):
		out, err = appendStruct(out, was, is)
	case kind == reflect.Map && !is.IsNil() && !was.IsNil() && !writesItself(is.Type()):
		out, err = appendMap(out, was, is)
	default:
		return appendValue(out, from, was, is)
	}
	if err == nil && bytes.Equal(out[start:], unchanged) {
		out = out[:from]
	}
	return out, err
}

// appendValue appends a value that a patch replaces whole, or cuts what is there off where its
// member begins if it is written as it was.
func appendValue(out []byte, from int, was, is reflect.Value) ([]byte, error) {
	same, err := isWrittenAlike(was, is)
	if err != nil {
		return nil, err
	}
	if same {
		return out[:from], nil
	}
	return appendJSON(out, is)
}

// isWrittenAlike tells whether two values of a type that are not equal are still the same in JSON.
func isWrittenAlike(was, is reflect.Value) (bool, error) {
	if is.Kind() == reflect.Slice && is.Len()*was.Len() > 0 && !writesItself(is.Type()) {
		if is.Len() != was.Len() {
			return false, nil
		}
		for i := range is.Len() {
			had, has := was.Index(i), is.Index(i)
			if reflect.DeepEqual(had.Addr().Interface(), has.Addr().Interface()) {
				continue
			}
			if same, err := isWrittenAlike(had, has); !same {
				return false, err
			}
		}
		return true, nil
	}
	before, err := appendJSON(nil, was)
	if err != nil {
		return false, err
	}
	after, err := appendJSON(nil, is)
	return bytes.Equal(before, after), err
}

func appendJSON(out []byte, v reflect.Value) ([]byte, error) {
	data, err := json.Marshal(v.Interface())
	return append(out, data...), err
}

// writesItself tells whether values of a type say themselves how they are written.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// jsonField is where a struct has what JSON calls by a name, and when that is left out.
type jsonField struct {
	name        string // as it is written, with its colon
	at          []int
	empty, zero bool // it is left out then
}

func (f *jsonField) isLeftOut(v reflect.Value) bool {
	return f.empty && isEmpty(v) || f.zero && isZero(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

func isZero(v reflect.Value) bool {
	if z, says := v.Addr().Interface().(interface{ IsZero() bool }); says {
		return z.IsZero()
	}
	return v.IsZero()
}

var fieldsKnown sync.Map //nolint:gochecknoglobals // by type; types do not change

// fieldsOf returns the fields of a struct that JSON has, by name.
func fieldsOf(t reflect.Type) []jsonField {
	if known, ok := fieldsKnown.Load(t); ok {
		return known.([]jsonField)
	}
	var found []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Anonymous && name == "":
			for _, inner := range fieldsOf(f.Type) {
				inner.at = append([]int{i}, inner.at...)
				found = append(found, inner)
			}
			continue
		case name == "":
			name = f.Name
		}
		has := strings.Split(options, ",")
		found = append(found, jsonField{`"` + name + `":`, []int{i}, slices.Contains(has, "omitempty"), slices.Contains(has, "omitzero")})
	}
	slices.SortFunc(found, func(a, b jsonField) int { return strings.Compare(a.name, b.name) })
	fieldsKnown.Store(t, found)
	return found
}
