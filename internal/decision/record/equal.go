package record

import (
	"maps"
	"reflect"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// equal reports whether two values of one type are equal. It may say no of equal ones behind different
// pointers: then they are written again, and give the same text.
type equal func(a, b reflect.Value) bool

// equalOf returns the comparison of a type, which looks at nothing that both share.
func equalOf(t reflect.Type) equal {
	switch t.Kind() {
	case reflect.Struct:
		fields := make([]equal, t.NumField())
		for i := range fields {
			fields[i] = equalOf(t.Field(i).Type)
		}
		return func(a, b reflect.Value) bool {
			for i, same := range fields {
				if !same(a.Field(i), b.Field(i)) {
					return false
				}
			}
			return true
		}
	case reflect.Slice:
		return equalSlices(t)
	case reflect.Map:
		return equalMaps
	case reflect.Pointer:
		return func(a, b reflect.Value) bool { return a.Pointer() == b.Pointer() }
	default:
		return reflect.Value.Equal
	}
}

func equalSlices(t reflect.Type) equal {
	of := equalOf(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		if a.Pointer() == b.Pointer() {
			return true
		}
		for i := range a.Len() {
			if !of(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

// equalMaps compares what a snapshot copies often; other maps must be the same one.
func equalMaps(a, b reflect.Value) bool {
	if a.Pointer() == b.Pointer() {
		return true
	}
	if a.IsNil() || b.IsNil() || a.Len() != b.Len() || !a.CanInterface() {
		return false
	}
	switch x := a.Interface().(type) {
	case quantity.List:
		return maps.Equal(x, b.Interface().(quantity.List)) //nolint:forcetypeassert // of the same type
	case map[string]string:
		return maps.Equal(x, b.Interface().(map[string]string)) //nolint:forcetypeassert // of the same type
	}
	return false
}
