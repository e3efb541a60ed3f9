package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merger applies merge patches. The zero value is ready.
type merger struct {
	// read are elements of lists as they were read before, by their type and text: of a list that
	// a patch replaces, most are as they were. They are never changed.
	read map[element]reflect.Value
}

type element struct {
	of   reflect.Type
	text string
}

// readMost bounds what a merger keeps.
const readMost = 1 << 14

// merged applies a merge patch, which may ask for a version of the object.
func (m *merger) merged(was client.Object, data []byte, status bool) (client.Object, error) {
	if v, err := lockOf(data); err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	} else if v != "" && v != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(ResourceOf(KindOf(was)), was.GetName(), errors.New("it has changed since it was read"))
	}
	is := shallow(was)
	err := members(data, func(name string, part json.RawMessage) error {
		at, ok := fieldsOf(reflect.TypeOf(was).Elem())[name]
		if !ok || (name == "status") != status {
			return nil
		}
		return m.merge(reflect.ValueOf(is).Elem().FieldByIndex(at), part)
	})
	if err != nil {
		return nil, fmt.Errorf("apply patch to %s: %w", was.GetName(), err)
	}
	return is, nil
}

// lockOf returns the version that a merge patch asks for; empty: any.
func lockOf(data []byte) (version string, err error) {
	err = members(data, func(name string, meta json.RawMessage) error {
		if name != "metadata" || bytes.Equal(meta, null) {
			return nil
		}
		return members(meta, func(name string, v json.RawMessage) error {
			if name != "resourceVersion" {
				return nil
			}
			return json.Unmarshal(v, &version)
		})
	})
	return version, err
}

var null = []byte("null") //nolint:gochecknoglobals // a constant

// merge applies a part of a merge patch to a part of an object without encoding either. What the
// part points to is shared with other objects, so it is replaced.
func (m *merger) merge(into reflect.Value, part json.RawMessage) error {
	if bytes.Equal(part, null) {
		into.SetZero()
		return nil
	}
	_, reads := into.Addr().Interface().(json.Unmarshaler)
	switch kind := into.Kind(); {
	case !reads && kind == reflect.Struct:
		fields := fieldsOf(into.Type())
		return members(part, func(name string, p json.RawMessage) error {
			if at, ok := fields[name]; ok {
				return m.merge(into.FieldByIndex(at), p)
			}
			return nil
		})
	case !reads && kind == reflect.Map:
		return m.mergeMap(into, part)
	case !reads && kind == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct:
		return m.list(into, part)
	case kind == reflect.Pointer && !into.IsNil():
		mine := reflect.New(into.Type().Elem())
		mine.Elem().Set(into.Elem())
		into.Set(mine)
		return m.merge(mine.Elem(), part)
	default:
		into.SetZero() // or what is read mixes with what there was
		return json.Unmarshal(part, into.Addr().Interface())
	}
}

// list replaces a list by what a patch says.
func (m *merger) list(into reflect.Value, part json.RawMessage) error {
	of := into.Type().Elem()
	list := reflect.MakeSlice(into.Type(), 0, into.Len()+1)
	err := elements(part, func(text json.RawMessage) error {
		known, ok := m.read[element{of, string(text)}]
		if !ok {
			known = reflect.New(of).Elem()
			if err := json.Unmarshal(text, known.Addr().Interface()); err != nil {
				return err
			}
			if m.read == nil || len(m.read) >= readMost {
				m.read = map[element]reflect.Value{}
			}
			m.read[element{of, string(text)}] = known
		}
		list = reflect.Append(list, known)
		return nil
	})
	into.Set(list)
	return err
}

func (m *merger) mergeMap(into reflect.Value, part json.RawMessage) error {
	mine := reflect.MakeMapWithSize(into.Type(), into.Len()+1)
	for had := into.MapRange(); had.Next(); {
		mine.SetMapIndex(had.Key(), had.Value())
	}
	into.Set(mine)
	err := members(part, func(name string, p json.RawMessage) error {
		key := reflect.ValueOf(name).Convert(into.Type().Key())
		if bytes.Equal(p, null) {
			into.SetMapIndex(key, reflect.Value{})
			return nil
		}
		value := reflect.New(into.Type().Elem()).Elem()
		if had := into.MapIndex(key); had.IsValid() {
			value.Set(had)
		}
		if err := m.merge(value, p); err != nil {
			return err
		}
		into.SetMapIndex(key, value)
		return nil
	})
	if into.Len() == 0 {
		into.SetZero() // as it is read where it is left out
	}
	return err
}

// fields are the fields of a struct by their JSON names.
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
