package topology

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
)

// name is a buffer for the name of a group: rules that count the same pods in the same
// domains make the same name.
type name struct {
	text  []byte
	meter *effort.Meter
}

// nameExpected is how many bytes nearly all names have room in.
const nameExpected = 256

// begin begins a new name.
func (n *name) begin(parts ...string) {
	if n.text == nil {
		n.text = make([]byte, 0, nameExpected)
	}
	n.text = n.text[:0]
	n.add(parts...)
}

// add adds parts to the name.
func (n *name) add(parts ...string) {
	for _, p := range parts {
		n.text = append(n.text, p...)
		n.text = append(n.text, '|')
	}
}

// addTerm adds an affinity term to the name.
func (n *name) addTerm(t *cluster.PodTerm) {
	n.add(t.Key)
	n.addSelector(&t.Selector)
	namespaces := t.Namespaces
	n.meter.Spend(len(namespaces))
	if len(namespaces) > 1 {
		namespaces = slices.Sorted(slices.Values(namespaces))
	}
	for _, ns := range namespaces {
		n.text = append(append(n.text, ns...), ',')
	}
	n.add("")
	n.addSelector(&t.NamespaceSelector)
}

// addSelector adds a selector to the name.
func (n *name) addSelector(s *cluster.Selector) {
	if !s.Some {
		n.add("none")
		return
	}
	if len(s.Requirements) == 1 { // as nearly all are
		for key, q := range s.Requirements {
			if value, only := q.Only(); only && !q.AllowsAbsence() {
				n.add("only", key, value)
				return
			}
		}
	}
	n.meter.Spend(s.Requirements.Weight())
	n.add("some", s.Requirements.String())
}
