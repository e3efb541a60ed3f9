package world

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// key names an object of a kind.
type key = types.NamespacedName

// object is what the server keeps.
type object = client.Object

// shelf keeps objects of one kind in the order of their names, and finds them by fields.
type shelf struct {
	objects map[key]client.Object
	keys    []key
	sorted  []client.Object // as keys
	indexes map[string]*index
}

// index finds objects by the values of one field.
type index struct {
	values func(client.Object) []string
	keys   map[string][]key
}

func newShelf() *shelf {
	return &shelf{objects: map[key]client.Object{}, indexes: map[string]*index{}}
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (s *shelf) get(k key) client.Object { return s.objects[k] }

func (s *shelf) put(o client.Object) {
	k := keyOf(o)
	if had := s.objects[k]; had != nil {
		s.unindex(had)
	}
	s.objects[k] = o
	i, found := slices.BinarySearchFunc(s.keys, k, compareKeys)
	if !found {
		s.keys, s.sorted = slices.Insert(s.keys, i, k), slices.Insert(s.sorted, i, o)
	}
	s.sorted[i] = o
	for _, x := range s.indexes {
		for _, v := range x.values(o) {
			x.keys[v] = insert(x.keys[v], k)
		}
	}
}

func (s *shelf) take(k key) {
	had := s.objects[k]
	if had == nil {
		return
	}
	s.unindex(had)
	delete(s.objects, k)
	if i, found := slices.BinarySearchFunc(s.keys, k, compareKeys); found {
		s.keys, s.sorted = slices.Delete(s.keys, i, i+1), slices.Delete(s.sorted, i, i+1)
	}
}

func (s *shelf) unindex(had client.Object) {
	for _, x := range s.indexes {
		for _, v := range x.values(had) {
			if x.keys[v] = withdraw(x.keys[v], keyOf(had)); len(x.keys[v]) == 0 {
				delete(x.keys, v)
			}
		}
	}
}

// find returns the keys of those whose field has the value.
func (s *shelf) find(field, value string) (keys []key, known bool) {
	x := s.indexes[field]
	if x == nil {
		return nil, false
	}
	return x.keys[value], true
}

func insert(keys []key, k key) []key {
	i, found := slices.BinarySearchFunc(keys, k, compareKeys)
	if found {
		return keys
	}
	return slices.Insert(keys, i, k)
}

func withdraw(keys []key, k key) []key {
	i, found := slices.BinarySearchFunc(keys, k, compareKeys)
	if !found {
		return keys
	}
	return slices.Delete(keys, i, i+1)
}
