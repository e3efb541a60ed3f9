package view

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// scope is which part of the cluster an answer is about, where that is no part of the snapshot. The zero scope is all of it.
type scope struct {
	// namespace is that of the objects and pods; empty: any.
	namespace string
	// selects chooses pods or nodes by their labels; nil: all are chosen.
	selects func(labels map[string]string) bool
}

// hasPod reports whether pods with these constraints are in the scope.
func (s *scope) hasPod(c *cluster.Constraints) bool {
	return (s.namespace == "" || s.namespace == c.Namespace) && s.has(c.Labels)
}

func (s *scope) has(labels map[string]string) bool { return s.selects == nil || s.selects(labels) }

// hasObject reports whether what is called namespace/name is in the scope.
func (s *scope) hasObject(name string) bool {
	return s.namespace == "" || strings.HasPrefix(name, s.namespace+"/")
}

// Within returns the state for an answer about a part of the cluster: cost is about pods of a namespace, unless it is empty,
// whose labels are selected; blockers about nodes whose labels are, and about objects of a namespace that keep them.
func (s *State) Within(namespace string, selects func(labels map[string]string) bool) *State {
	part := *s
	part.scope = scope{namespace, selects}
	return &part
}

// WithEntries returns the state for an answer about nodes whose labels are selected, or, with a namespace, about its
// pending pods whose labels are: next.
func (s *State) WithEntries(namespace string, selects func(labels map[string]string) bool) *State {
	part := *s
	if namespace != "" {
		part = *s.WithPending(namespace, selects)
	}
	part.scope = scope{namespace, selects}
	return &part
}

// WithOfferings returns the state with those offerings alone whose labels, as nodes launched from them have them, are selected.
func (s *State) WithOfferings(selects func(labels map[string]string) bool) *State {
	part, snap := *s, *s.Snapshot
	part.Snapshot = &snap
	snap.Pools = slices.Clone(snap.Pools)
	for i := range snap.Pools {
		p := &snap.Pools[i]
		p.Types = slices.Clone(p.Types)
		for k, t := range p.Types {
			some := *t
			some.Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o catalog.Offering) bool {
				return !selects(labelsOf(p.Name, t, &o))
			})
			p.Types[k] = &some
		}
	}
	return &part
}

// labelsOf returns the labels of a node that is launched from an offering of a pool's instance type, as far as these decide them.
func labelsOf(pool string, t *catalog.Type, o *catalog.Offering) map[string]string {
	labels := map[string]string{label.NodePool: pool, label.InstanceType: t.Name}
	for _, from := range []label.Requirements{t.Requirements, o.Requirements()} {
		for key, r := range from {
			if value, ok := r.Only(); ok {
				labels[key] = value
			}
		}
	}
	return labels
}

// WithNodes returns the state with those nodes alone whose labels are selected.
func (s *State) WithNodes(selects func(labels map[string]string) bool) *State {
	part, snap := *s, *s.Snapshot
	part.Snapshot = &snap
	snap.Nodes = slices.DeleteFunc(slices.Clone(snap.Nodes), func(n cluster.Node) bool { return !selects(n.Labels) })
	return &part
}

// WithPending returns the state with those pending pods alone that are in a namespace, unless it is empty, and whose
// labels are selected. Of those for which nothing is launched by choice no labels are known.
func (s *State) WithPending(namespace string, selects func(labels map[string]string) bool) *State {
	part, snap := *s, *s.Snapshot
	part.Snapshot = &snap
	isOut := func(ref cluster.PodRef, c *cluster.Constraints) bool {
		var labels map[string]string
		if c != nil {
			labels = c.Labels
		}
		return namespace != "" && ref.Namespace != namespace || !selects(labels)
	}
	snap.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p cluster.Pod) bool { return isOut(p.PodRef, p.Constraints) })
	snap.Excluded = slices.DeleteFunc(slices.Clone(snap.Excluded), func(p cluster.ExcludedPod) bool { return isOut(p.PodRef, nil) })
	return &part
}
