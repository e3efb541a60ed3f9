package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// kinds groups the nodes that have the same taints, and the same values of all labels that classes
// and DaemonSets ask about, hostname aside.
type kinds struct {
	s       *Inventory
	keys    []string // that classes ask about, hostname aside
	byName  map[string]int32
	example []*cluster.Node
	sums    []quantity.Vector // by kind: what DaemonSet pods ask for together; nil: not known yet
	byHost  bool              // a DaemonSet asks for a hostname
	buf     []byte
}

func (s *Inventory) newKinds() *kinds {
	k := &kinds{s: s, byName: map[string]int32{}}
	note := func(terms []label.Requirements) {
		for _, t := range terms {
			for key := range t {
				if key != label.Hostname && !slices.Contains(k.keys, key) {
					k.keys = append(k.keys, key)
				}
			}
		}
	}
	for c := range s.classes {
		note(s.classes[c].Constraints.Terms)
	}
	for i := range s.model.Snapshot.Daemons {
		note(s.model.Snapshot.Daemons[i].Constraints.Terms)
		k.byHost = k.byHost || asksHost(s.model.Snapshot.Daemons[i].Constraints.Terms)
	}
	slices.Sort(k.keys)
	return k
}

// asksHost reports whether one of the terms asks for a hostname.
func asksHost(terms []label.Requirements) bool {
	return slices.ContainsFunc(terms, func(t label.Requirements) bool { _, ok := t[label.Hostname]; return ok })
}

// of returns the kind of a node.
func (k *kinds) of(n *cluster.Node) int32 {
	name := k.buf[:0]
	for _, key := range k.keys {
		if v, ok := n.Labels[key]; ok {
			name = append(append(name, v...), 0)
		}
		name = append(name, 1)
	}
	for _, t := range n.Taints {
		name = append(append(name, t.Key...), 0)
		name = append(append(name, t.Value...), 0)
		name = append(append(name, t.Effect...), 1)
	}
	k.buf = name
	i, ok := k.byName[string(name)]
	if !ok {
		i = int32(len(k.example))
		k.byName[string(name)] = i
		k.example = append(k.example, n)
		k.sums = append(k.sums, nil)
	}
	return i
}

// daemons returns what the pods of DaemonSets that select a node of the kind ask for together.
func (k *kinds) daemons(n *cluster.Node, kind int32) quantity.Vector {
	if k.byHost {
		return model.DaemonsFor(k.s.model.Space, k.s.model.Snapshot.Daemons, n)
	}
	if k.sums[kind] == nil {
		k.sums[kind] = model.DaemonsFor(k.s.model.Space, k.s.model.Snapshot.Daemons, n)
	}
	return k.sums[kind]
}

// allowed returns, for each class, the kinds that it allows. It is nil for classes that ask for a
// hostname, which each node has to be asked about.
func (k *kinds) allowed() []model.Bitset {
	out := make([]model.Bitset, len(k.s.classes))
	for c := range k.s.classes {
		sh := k.s.classes[c].Constraints
		if asksHost(sh.Terms) {
			continue
		}
		out[c] = model.NewBitset(len(k.example))
		k.s.model.Meter.Spend(len(k.example) * k.s.classes[c].Weight)
		for i, n := range k.example {
			if sh.Invalid == "" && fit.Tolerated(sh.Tolerations, n.Taints) && fit.Matches(sh.Terms, n.Labels) {
				out[c].Set(i)
			}
		}
	}
	return out
}
