package world

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// key names an object of a kind.
type key = types.NamespacedName

// object is what the server keeps.
type object = client.Object

// shelf keeps objects of one kind in the order of their names, and finds them by fields.
type shelf struct {
	row
	objects map[key]client.Object
	indexes map[string]*index
}

// row is objects in the order of their names, with those.
type row struct {
	keys   []key
	sorted []client.Object
}

// index finds objects by the values of one field.
type index struct {
	values func(client.Object) []string
	rows   map[string]*row
}

func newShelf() *shelf {
	return &shelf{objects: map[key]client.Object{}, indexes: map[string]*index{}}
}

func newIndex(values func(client.Object) []string) *index {
	return &index{values: values, rows: map[string]*row{}}
}

// byOne is an index by a field that every object has one value of.
func byOne(value func(client.Object) string) *index {
	return newIndex(func(o client.Object) []string { return []string{value(o)} })
}

func compareKeys(a, b key) int {
	if a.Namespace != b.Namespace {
		return strings.Compare(a.Namespace, b.Namespace)
	}
	return strings.Compare(a.Name, b.Name)
}

func (s *shelf) get(k key) client.Object { return s.objects[k] }

func (s *shelf) put(o client.Object) {
	k := keyOf(o)
	had := s.objects[k]
	s.objects[k] = o
	s.row.put(k, o)
	for _, x := range s.indexes {
		x.move(k, had, o)
	}
}

func (s *shelf) take(k key) {
	had := s.objects[k]
	if had == nil {
		return
	}
	delete(s.objects, k)
	s.row.take(k)
	for _, x := range s.indexes {
		x.move(k, had, nil)
	}
}

// find returns those whose field has the value.
func (s *shelf) find(field, value string) (found []client.Object, known bool) {
	x := s.indexes[field]
	if x == nil {
		return nil, false
	}
	return x.find(value), true
}

// byLabel returns an index by a label's values. Who asks first has it made.
func (s *shelf) byLabel(label string) *index {
	field := "label " + label
	x := s.indexes[field]
	if x == nil {
		x = newIndex(func(o client.Object) []string {
			if v, is := o.GetLabels()[label]; is {
				return []string{v}
			}
			return nil
		})
		for i, o := range s.sorted {
			x.move(s.keys[i], nil, o)
		}
		s.indexes[field] = x
	}
	return x
}

func (x *index) find(value string) []client.Object {
	if r := x.rows[value]; r != nil {
		return r.sorted
	}
	return nil
}

// move puts an object in the place of what it was; nil: there was or is none.
func (x *index) move(k key, was, is client.Object) {
	var from, to []string
	if was != nil {
		from = x.values(was)
	}
	if is != nil {
		to = x.values(is)
	}
	for _, v := range from {
		if r := x.rows[v]; r != nil && !slices.Contains(to, v) {
			if r.take(k); len(r.keys) == 0 {
				delete(x.rows, v)
			}
		}
	}
	for _, v := range to {
		if x.rows[v] == nil {
			x.rows[v] = &row{}
		}
		x.rows[v].put(k, is)
	}
}

func (r *row) put(k key, o client.Object) {
	i, found := slices.BinarySearchFunc(r.keys, k, compareKeys)
	if !found {
		r.keys, r.sorted = slices.Insert(r.keys, i, k), slices.Insert(r.sorted, i, o)
	}
	r.sorted[i] = o
}

func (r *row) take(k key) {
	if i, found := slices.BinarySearchFunc(r.keys, k, compareKeys); found {
		r.keys, r.sorted = slices.Delete(r.keys, i, i+1), slices.Delete(r.sorted, i, i+1)
	}
}
