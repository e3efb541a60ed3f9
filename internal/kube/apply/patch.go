package apply

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mergeFrom makes the same patch as client.MergeFrom in a fraction of the time: that writes both
// objects as JSON to compare them, this compares fields and writes only those that differ.
func mergeFrom(before client.Object) client.Patch {
	return mergePatch{Patch: clientPatch(before, false), before: before}
}

// mergeFromSeen is mergeFrom on the condition that nobody has written since the object was read.
func mergeFromSeen(before client.Object) client.Patch {
	return mergePatch{Patch: clientPatch(before, true), before: before, lock: true}
}

func clientPatch(before client.Object, lock bool) client.Patch {
	if lock {
		return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	return client.MergeFrom(before)
}

type mergePatch struct {
	client.Patch
	before client.Object
	lock   bool
	// statusOnly: nothing else is patched, so nothing else is compared.
	statusOnly bool
}

// Data returns the patch that makes what was before into the object.
func (p mergePatch) Data(obj client.Object) ([]byte, error) {
	if says, ok := p.plain(obj); ok {
		return json.Marshal(says)
	}
	was, is := differing(p.before, obj, p.statusOnly)
	return clientPatch(was, p.lock).Data(is)
}

// plain returns the patch by part and field. It is not ok if a field differs that is not written
// as a whole: only lists, maps of strings, strings and times are.
func (p mergePatch) plain(obj client.Object) (says map[string]map[string]any, ok bool) {
	says = map[string]map[string]any{}
	if p.lock {
		if p.before.GetResourceVersion() == "" {
			return nil, false
		}
		says["metadata"] = map[string]any{}
	}
	ok = true
	eachDifference(p.before, obj, p.statusOnly, func(part, field int, had, has reflect.Value) {
		in := reflect.TypeOf(obj).Elem().Field(part)
		partName, name := nameOf(in), nameOf(in.Type.Field(field))
		value, plain := whole(had, has)
		ok = ok && plain && partName != "" && name != ""
		if !ok || equality.Semantic.DeepEqual(had.Interface(), has.Interface()) { // the same time, said in another zone
			return
		}
		if says[partName] == nil {
			says[partName] = map[string]any{}
		}
		says[partName][name] = value
	})
	if ok && p.lock {
		says["metadata"]["resourceVersion"] = p.before.GetResourceVersion()
	}
	return says, ok
}

// nameOf returns what a field is called in JSON; empty where it is not called by one name.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// whole returns the value of a field in a patch; false if the field is not written as a whole.
func whole(had, has reflect.Value) (says any, ok bool) {
	switch is := has.Interface().(type) {
	case string:
		return is, is != ""
	case metav1.Time:
		return is, !is.IsZero()
	case map[string]string:
		was := had.Interface().(map[string]string)
		changes := map[string]any{}
		for key := range was {
			if _, stays := is[key]; !stays {
				changes[key] = nil
			}
		}
		for key, value := range is {
			if before, there := was[key]; !there || before != value {
				changes[key] = value
			}
		}
		return changes, len(is) > 0 && len(was) > 0
	}
	return has.Interface(), has.Kind() == reflect.Slice && has.Len() > 0
}

// eachDifference goes over the fields of metadata, spec and status that differ, or of status alone.
func eachDifference(before, after client.Object, statusOnly bool, do func(part, field int, had, has reflect.Value)) {
	b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	for part := range b.NumField() {
		if statusOnly && b.Type().Field(part).Name != "Status" {
			continue
		}
		for field := range b.Field(part).NumField() {
			had, has := b.Field(part).Field(field), a.Field(part).Field(field)
			if !reflect.DeepEqual(had.Addr().Interface(), has.Addr().Interface()) {
				do(part, field, had, has)
			}
		}
	}
}

// differing returns two objects of one kind without the fields of their metadata, spec and status
// that are the same in both, but for the version that they were read at.
func differing(before, after client.Object, statusOnly bool) (was, is client.Object) {
	w, i := reflect.New(reflect.TypeOf(before).Elem()), reflect.New(reflect.TypeOf(after).Elem())
	eachDifference(before, after, statusOnly, func(part, field int, had, has reflect.Value) {
		w.Elem().Field(part).Field(field).Set(had)
		i.Elem().Field(part).Field(field).Set(has)
	})
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
	if ours, is := patch.(mergePatch); is {
		ours.statusOnly = true
		patch = ours
	}
	made, err := cut(obj, patch)
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, obj, made)
}

// cut makes the patch of an object and then copies the object. The patch comes first, because it is
// fast while the object shares unchanged parts with its former state. The copy is needed because
// the answer of the API server is read into the object.
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

// each calls do for 0 to n-1, for several at once unless oneByOne, and joins the errors.
func each(n int, oneByOne bool, do func(i int) error) error {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(claimsAtOnce)
	if oneByOne {
		g.SetLimit(1)
	}
	for i := range n {
		g.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
