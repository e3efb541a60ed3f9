package record

import (
	"maps"
	"reflect"
	"unsafe"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// equal reports whether two values of one type, given by their addresses, are equal. It may say no of equal ones
// behind different pointers: then they are written again, and give the same text. It is asked about each node of
// a cluster with each decision: reflect takes ten times as long.
type equal func(a, b unsafe.Pointer) bool

// equalOf returns the comparison of a type, which looks at nothing that both share.
func equalOf(t reflect.Type) equal {
	switch t.Kind() {
	case reflect.Struct:
		return equalStructs(t)
	case reflect.Slice:
		return equalSlices(t)
	case reflect.Map:
		return equalMaps(t)
	case reflect.String:
		return equalValues[string]
	case reflect.Pointer:
		return equalValues[unsafe.Pointer]
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return equalValues[uint8]
	case reflect.Int32, reflect.Uint32:
		return equalValues[uint32]
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Float64:
		return equalValues[uint64]
	default:
		return func(a, b unsafe.Pointer) bool {
			return reflect.NewAt(t, a).Elem().Equal(reflect.NewAt(t, b).Elem())
		}
	}
}

func equalValues[T comparable](a, b unsafe.Pointer) bool { return *(*T)(a) == *(*T)(b) }

func equalStructs(t reflect.Type) equal {
	offsets, fields := make([]uintptr, t.NumField()), make([]equal, t.NumField())
	for i := range fields {
		offsets[i], fields[i] = t.Field(i).Offset, equalOf(t.Field(i).Type)
	}
	return func(a, b unsafe.Pointer) bool {
		for i, same := range fields {
			if !same(unsafe.Add(a, offsets[i]), unsafe.Add(b, offsets[i])) {
				return false
			}
		}
		return true
	}
}

func equalSlices(t reflect.Type) equal {
	of, size := equalOf(t.Elem()), int(t.Elem().Size()) //nolint:gosec // the size of a type
	return func(a, b unsafe.Pointer) bool {
		x, y := *(*[]byte)(a), *(*[]byte)(b) // only their lengths and addresses are used
		from, to := unsafe.Pointer(unsafe.SliceData(x)), unsafe.Pointer(unsafe.SliceData(y))
		if len(x) != len(y) || (from == nil) != (to == nil) {
			return false
		}
		if from == to {
			return true
		}
		for i := range x {
			if !of(unsafe.Add(from, i*size), unsafe.Add(to, i*size)) {
				return false
			}
		}
		return true
	}
}

// equalMaps compares what a snapshot copies often; other maps must be the same one.
func equalMaps(t reflect.Type) equal {
	return func(a, b unsafe.Pointer) bool {
		if equalValues[unsafe.Pointer](a, b) {
			return true
		}
		switch t {
		case reflect.TypeFor[quantity.List]():
			return equalEntries(*(*quantity.List)(a), *(*quantity.List)(b))
		case reflect.TypeFor[map[string]string]():
			return equalEntries(*(*map[string]string)(a), *(*map[string]string)(b))
		}
		return false
	}
}

func equalEntries[M ~map[K]V, K, V comparable](a, b M) bool {
	return a != nil && b != nil && maps.Equal(a, b)
}
