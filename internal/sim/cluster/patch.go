package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch changes an object as a patch says, its status or all but that.
func (a *API) patch(obj client.Object, kind types.PatchType, data []byte, status bool) (client.Object, error) {
	name := KindOf(obj)
	was := a.Shelf(name).Get(KeyOf(obj))
	if was == nil {
		return nil, apierrors.NewNotFound(ResourceOf(name), obj.GetName())
	}
	var is client.Object
	var err error
	if kind == types.MergePatchType {
		is, err = a.merger.merged(was, data, status)
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
	if now := a.Shelf(name).Get(KeyOf(obj)); now != nil {
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
