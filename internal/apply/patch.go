package apply

import (
	"context"
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

// shallow returns a copy of an object that shares what it points to.
func shallow(o client.Object) client.Object {
	mine := reflect.New(reflect.TypeOf(o).Elem())
	mine.Elem().Set(reflect.ValueOf(o).Elem())
	return mine.Interface().(client.Object)
}
