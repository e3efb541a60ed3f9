package apply

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mergeFrom is client.MergeFrom, which writes both objects out whole to find that one field
// changed, of what differs alone: the same patch in a fraction of the time.
func mergeFrom(before client.Object) client.Patch {
	return mergePatch{client.MergeFrom(before), before, client.MergeFrom}
}

// mergeFromSeen is mergeFrom on the condition that nobody has written since the object was read.
func mergeFromSeen(before client.Object) client.Patch {
	locked := func(o client.Object) client.Patch {
		return client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})
	}
	return mergePatch{locked(before), before, locked}
}

type mergePatch struct {
	client.Patch
	before client.Object
	of     func(before client.Object) client.Patch
}

// Data returns the patch that makes what was before into the object.
func (p mergePatch) Data(obj client.Object) ([]byte, error) {
	was, is := differing(p.before, obj)
	return p.of(was).Data(is)
}

// differing returns two objects of one kind without the fields of their metadata, spec and status
// that are the same in both, but for the version that they were read at.
func differing(before, after client.Object) (was, is client.Object) {
	b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	w, i := reflect.New(b.Type()), reflect.New(a.Type())
	for part := range b.NumField() {
		for field := range b.Field(part).NumField() {
			had, has := b.Field(part).Field(field), a.Field(part).Field(field)
			if !reflect.DeepEqual(had.Addr().Interface(), has.Addr().Interface()) {
				w.Elem().Field(part).Field(field).Set(had)
				i.Elem().Field(part).Field(field).Set(has)
			}
		}
	}
	was, is = w.Interface().(client.Object), i.Interface().(client.Object)
	was.SetResourceVersion(before.GetResourceVersion())
	is.SetResourceVersion(after.GetResourceVersion())
	return was, is
}
