// Package hostile makes objects that nobody would write and the API server may take all the
// same: amounts at the ends of what a number holds, lists as long as a request may be, rules
// that contradict one another, references to what is not there. What a controller does not
// survive of them is a fault of its.
//
// The same seed gives the same objects. Read hostile.go first, then values.go; pods.go,
// workloads.go, nodes.go and config.go have the families.
package hostile

import (
	"fmt"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Namespace is where the objects are that need one. It is made by Setup.
const Namespace = "hostile"

// Options say what is made.
type Options struct {
	Seed uint64
	// Objects is how many are made, of one family after another.
	Objects int
	// Most is how long a list may be: of containers, terms, taints; 0: 100. The API server's
	// own bound is the size of a request, which 5,000 and more come to.
	Most int
}

// Object is one object, and the family that it is of.
type Object struct {
	Family string
	*unstructured.Unstructured
	// Status is to be written when the object is there, by its own subresource; nil: none.
	Status map[string]any
}

// generator makes one object.
type generator struct {
	*rand.Rand
	index, most int
	// wild: it may have values that the API server is known to refuse. Most objects are such
	// that they may be taken, or else hardly any would be.
	wild bool
}

// name returns a name that no other object of the run has.
func (g *generator) name(what string) string { return fmt.Sprintf("hostile-%s-%d", what, g.index) }

// count returns how long a list is: as long as it may be, or short, or something between.
func (g *generator) count() int {
	switch g.IntN(3) {
	case 0:
		return 1 + g.IntN(3)
	case 1:
		return g.most
	default:
		return 1 + g.IntN(g.most)
	}
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// among returns one of those that may be taken; of a wild object, one of the others, too.
func among[T any](g *generator, taken []T, others ...T) T {
	if g.wild {
		return pick(g, append(taken[:len(taken):len(taken)], others...)...)
	}
	return pick(g, taken...)
}

// times returns a list of n of what one returns.
func times(n int, one func(i int) any) list {
	out := make(list, n)
	for i := range n {
		out[i] = one(i)
	}
	return out
}

// m and list are JSON.
type (
	m    = map[string]any
	list = []any
)

// object returns an object with the fields of its body beside its name.
func object(apiVersion, kind, namespace, name string, body m) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: m{}}
	for key, value := range body {
		o.Object[key] = value
	}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
