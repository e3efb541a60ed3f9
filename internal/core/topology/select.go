package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// This file finds the classes that a selector selects without asking each of them.

// labelled is a label of a class.
type labelled struct{ key, value string }

// index finds classes by label and, after addNamespaces, by namespace.
type index struct {
	classes     []int
	byLabel     map[labelled][]int
	byNamespace map[string][]int
}

func newIndex(constraintSets []*cluster.Constraints, classes []int, numbers *short[int]) *index {
	x := &index{classes: classes, byLabel: map[labelled][]int{}}
	for _, c := range classes {
		for key, value := range constraintSets[c].Labels {
			at := labelled{key, value}
			x.byLabel[at] = numbers.add(x.byLabel[at], c)
		}
	}
	return x
}

func (x *index) addNamespaces(constraintSets []*cluster.Constraints, numbers *short[int]) {
	x.byNamespace = map[string][]int{}
	for _, c := range x.classes {
		ns := constraintSets[c].Namespace
		x.byNamespace[ns] = numbers.add(x.byNamespace[ns], c)
	}
}

// fewest returns the given classes, or fewer, if all that the selector selects have one label.
func (x *index) fewest(s *cluster.Selector, classes []int) []int {
	for key, q := range s.Requirements {
		if value, only := q.Only(); only && !q.AllowsAbsence() {
			if with := x.byLabel[labelled{key, value}]; len(with) < len(classes) {
				classes = with
			}
		}
	}
	return classes
}

// among returns classes among which are all that the term selects.
func (x *index) among(t *cluster.PodTerm) []int {
	best := x.classes
	if !t.NamespaceSelector.Some {
		if best = nil; len(t.Namespaces) == 1 {
			best = x.byNamespace[t.Namespaces[0]]
		} else {
			for _, ns := range slices.Compact(slices.Sorted(slices.Values(t.Namespaces))) {
				best = append(best, x.byNamespace[ns]...)
			}
		}
	}
	return x.fewest(&t.Selector, best)
}

// effortOf is the effort of asking whether a term selects a pod.
func effortOf(t *cluster.PodTerm) int {
	return 1 + len(t.Selector.Requirements) + len(t.NamespaceSelector.Requirements) + len(t.Namespaces)/numbersUnit
}

// short makes lists that mostly have one element. It allocates memory for shortMany at once.
type short[T any] struct{ free []T }

const shortMany = 128

// add appends to a list.
func (s *short[T]) add(list []T, v T) []T {
	if len(list) > 0 {
		return append(list, v)
	}
	if len(s.free) == 0 {
		s.free = make([]T, shortMany)
	}
	list, s.free = s.free[:1:1], s.free[1:]
	list[0] = v
	return list
}
