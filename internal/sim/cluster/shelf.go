package cluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Key names an object of a kind.
type Key = types.NamespacedName

// Shelf keeps objects of one kind in the order of their names, and finds them by fields.
type Shelf struct {
	row
	objects map[Key]client.Object
	indexes map[string]*index
}

// row is objects in the order of their names.
type row struct {
	keys   []Key
	sorted []client.Object
}

// index finds objects by the values of one field.
type index struct {
	values func(client.Object) []string
	rows   map[string]*row
}

// NewShelf returns an empty shelf.
func NewShelf() *Shelf {
	return &Shelf{objects: map[Key]client.Object{}, indexes: map[string]*index{}}
}

func newIndex(values func(client.Object) []string) *index {
	return &index{values: values, rows: map[string]*row{}}
}

func compareKeys(a, b Key) int {
	if a.Namespace != b.Namespace {
		return strings.Compare(a.Namespace, b.Namespace)
	}
	return strings.Compare(a.Name, b.Name)
}

// Len returns how many objects there are.
func (s *Shelf) Len() int { return len(s.keys) }

// Keys returns the names of the objects, in order.
func (s *Shelf) Keys() []Key { return slices.Clone(s.keys) }

// Index has objects found by the values of a field from now on.
func (s *Shelf) Index(field string, values func(client.Object) []string) {
	x := newIndex(values)
	for i, o := range s.sorted {
		x.move(s.keys[i], nil, o)
	}
	s.indexes[field] = x
}

// CountBy calls do with each value of a label and the number of objects that have it, in no order.
func (s *Shelf) CountBy(label string, do func(value string, objects int)) {
	for value, r := range s.byLabel(label).rows {
		do(value, len(r.keys))
	}
}

// Get returns an object; nil: there is none.
func (s *Shelf) Get(k Key) client.Object { return s.objects[k] }

// Put adds an object, or puts it in the place of the one with its name.
func (s *Shelf) Put(o client.Object) {
	k := KeyOf(o)
	had := s.objects[k]
	s.objects[k] = o
	s.put(k, o)
	for _, x := range s.indexes {
		x.move(k, had, o)
	}
}

// Remove takes an object away, if it is there.
func (s *Shelf) Remove(k Key) {
	had := s.objects[k]
	if had == nil {
		return
	}
	delete(s.objects, k)
	s.remove(k)
	for _, x := range s.indexes {
		x.move(k, had, nil)
	}
}

// find returns those whose field has the value.
func (s *Shelf) find(field, value string) (found []client.Object, known bool) {
	x := s.indexes[field]
	if x == nil {
		return nil, false
	}
	return x.find(value), true
}

// byLabel returns an index by a label's values. The first call for a label makes it.
func (s *Shelf) byLabel(label string) *index {
	field := "label " + label
	if s.indexes[field] == nil {
		s.Index(field, func(o client.Object) []string {
			if v, is := o.GetLabels()[label]; is {
				return []string{v}
			}
			return nil
		})
	}
	return s.indexes[field]
}

func (x *index) find(value string) []client.Object {
	if r := x.rows[value]; r != nil {
		return r.sorted
	}
	return nil
}

// move puts an object in the place of what it was; nil: there was or is none.
func (x *index) move(k Key, was, is client.Object) {
	var from, to []string
	if was != nil {
		from = x.values(was)
	}
	if is != nil {
		to = x.values(is)
	}
	for _, v := range from {
		if r := x.rows[v]; r != nil && !slices.Contains(to, v) {
			if r.remove(k); len(r.keys) == 0 {
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

func (r *row) put(k Key, o client.Object) {
	i, found := slices.BinarySearchFunc(r.keys, k, compareKeys)
	if !found {
		r.keys, r.sorted = slices.Insert(r.keys, i, k), slices.Insert(r.sorted, i, o)
	}
	r.sorted[i] = o
}

func (r *row) remove(k Key) {
	if i, found := slices.BinarySearchFunc(r.keys, k, compareKeys); found {
		r.keys, r.sorted = slices.Delete(r.keys, i, i+1), slices.Delete(r.sorted, i, i+1)
	}
}

// KeyOf returns the name of an object.
func KeyOf(o client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
