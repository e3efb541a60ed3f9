package label

import (
	"maps"
	"slices"
	"strings"
)

// Keys the core itself must know: they decide where a node can be.
const (
	Zone         = "topology.kubernetes.io/zone"
	InstanceType = "node.kubernetes.io/instance-type"
	CapacityType = "karpenter.sh/capacity-type"
	NodePool     = "karpenter.sh/nodepool"
	Hostname     = "kubernetes.io/hostname"
)

// Capacity types.
const (
	Spot     = "spot"
	OnDemand = "on-demand"
	Reserved = "reserved"
)

// Requirements is what each key may be. A missing key is unconstrained. Requirements
// are shared and never changed once handed out; the methods return new ones.
type Requirements map[string]Requirement

// OfLabels returns the requirements that allow exactly these labels.
func OfLabels(labels map[string]string) Requirements {
	r := make(Requirements, len(labels))
	for k, v := range labels {
		r[k] = In(v)
	}
	return r
}

// Weight returns how many keys and values the requirements have together.
func (r Requirements) Weight() (w int) {
	for _, q := range r {
		w += 1 + len(q.values)
	}
	return w
}

// Keys returns the keys, sorted.
func (r Requirements) Keys() []string { return slices.Sorted(maps.Keys(r)) }

// With returns r with one more requirement: intersected where the key has one.
func (r Requirements) With(key string, q Requirement) Requirements {
	return r.Intersect(Requirements{key: q})
}

// Add adds one more requirement to r itself, intersected where the key has one. It is for
// requirements that are being made: none that was handed out may be changed.
func (r Requirements) Add(key string, q Requirement) {
	if had, ok := r[key]; ok {
		q = had.Intersect(q)
	}
	r[key] = q
}

// Intersect returns what both allow, key by key. Whether anything is left is for
// Conflict to say.
func (r Requirements) Intersect(o Requirements) Requirements {
	both := make(Requirements, len(r)+len(o))
	maps.Copy(both, r)
	for k, q := range o {
		both.Add(k, q)
	}
	return both
}

// Conflict returns the first key, in order, on which the two do not overlap.
func (r Requirements) Conflict(o Requirements) (key string, conflict bool) {
	for k, q := range o {
		had, ok := r[k]
		if ok && !had.Overlaps(q) && (!conflict || k < key) {
			key, conflict = k, true
		}
	}
	return key, conflict
}

// Undefined returns the first key, in order, that want demands a value for while r says
// nothing about it and it is not in allowed.
func (r Requirements) Undefined(want Requirements, allowed map[string]bool) (key string, undefined bool) {
	for k, q := range want {
		if _, ok := r[k]; ok || allowed[k] || q.AllowsAbsence() {
			continue
		}
		if !undefined || k < key {
			key, undefined = k, true
		}
	}
	return key, undefined
}

// Compatible reports whether something described by r can accept want: every key that
// want demands is defined by r or in allowed, and no shared key conflicts. Real nodes
// are described by their labels and allow no undefined key.
func (r Requirements) Compatible(want Requirements, allowed map[string]bool) bool {
	if _, undefined := r.Undefined(want, allowed); undefined {
		return false
	}
	_, conflict := r.Conflict(want)
	return !conflict
}

// Matches returns the first key, in order, on which these labels do not satisfy r.
func (r Requirements) Matches(labels map[string]string) (key string, ok bool) {
	ok = true
	for k, q := range r {
		v, has := labels[k]
		if (has && q.Allows(v)) || (!has && q.AllowsAbsence()) {
			continue
		}
		if ok || k < key {
			key, ok = k, false
		}
	}
	return key, ok
}

// Equal reports whether two are written the same.
func (r Requirements) Equal(o Requirements) bool {
	return maps.EqualFunc(r, o, Requirement.Equal)
}

// String returns the requirements in the order of their keys.
func (r Requirements) String() string {
	parts := make([]string, 0, len(r))
	for _, k := range r.Keys() {
		parts = append(parts, k+" "+r[k].String())
	}
	return strings.Join(parts, ", ")
}
