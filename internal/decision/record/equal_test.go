package record

import (
	"reflect"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// TestEveryFieldIsCompared changes each field of a node and a NodePool, also of what their lists have, and holds that
// the change is noticed: else a journal would keep what was.
func TestEveryFieldIsCompared(t *testing.T) {
	t.Parallel()
	samePool := equalOf(reflect.TypeFor[cluster.Pool]())
	changed := compareAll(t, sameNode) + compareAll(t, func(a, b *cluster.Pool) bool {
		return samePool(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
	})
	if changed < 60 {
		t.Errorf("only %d fields were changed", changed)
	}
}

func compareAll[T any](t *testing.T, same func(a, b *T) bool) int {
	t.Helper()
	var full T
	fill(reflect.ValueOf(&full).Elem(), 3)
	other := full
	if !same(&full, &other) {
		t.Errorf("a %T differs from its copy", full)
	}
	n := 0
	eachPlace(reflect.ValueOf(&other).Elem(), reflect.TypeFor[T]().Name(), func(at string, v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.SetZero()
		if same(&full, &other) {
			t.Errorf("a change of %s is not noticed", at)
		}
		v.Set(was)
		n++
	})
	return n
}

// eachPlace calls do with each value that a field or list element has, in copies of the lists.
func eachPlace(v reflect.Value, at string, do func(at string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		do(at, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				eachPlace(v.Field(i), at+"."+f.Name, do)
			}
		}
	case v.Kind() == reflect.Slice:
		do(at, v)
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		for i := range v.Len() {
			eachPlace(v.Index(i), at+"[]", do)
		}
	default:
		do(at, v)
	}
}

// fill sets what is zero, so many pointers deep.
func fill(v reflect.Value, deep int) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), deep)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), deep)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer:
		if v.Set(reflect.New(v.Type().Elem())); deep > 0 {
			fill(v.Elem(), deep-1)
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
	}
}
