package model

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// PodClass is a pod equivalence class: all pending pods with the same constraints. Its index among
// the classes is its class in the ledger.
type PodClass struct {
	Constraints *cluster.Constraints
	Index       int
	Need        quantity.Vector
	Pods        []int32 // the unplaced ones, as indexes into Snapshot.Pending
	Stages      []Stage
	// Keys are the topology keys of the ledger for which the domains of the class's pods matter.
	Keys []int
	// Weight is the effort of comparing a pod of the class with the labels and taints of one node.
	Weight int
	// LastMiss is the last reason for which rules between pods kept a pod of the class from a node.
	LastMiss topology.Miss
	// IsBuffer: its pods are chunks of a capacity buffer. They are placed when all other pods are.
	IsBuffer bool
	// Waits: no node is launched for its pods yet.
	Waits bool
	// PerNode is how many of its pods one node should have at most; 0: any number.
	PerNode int
	// TooLarge: no node can hold its pods. They were refused before any pod was placed.
	TooLarge bool
}

// Stage is what a class asks for after some of its preferences were given up. The last stage of a
// class has no preferences left.
type Stage struct {
	Admitted []Admitted // by pool
	// PreferencesFrom is the first preference that is still kept.
	PreferencesFrom int
	// preference is what the labels of a node should satisfy besides; nil: nothing.
	preference label.Requirements
	// AvoidPreferNoSchedule: PreferNoSchedule taints keep the class away.
	AvoidPreferNoSchedule bool
	// RespectSpread: the class's pods respect the topology spread of other pods.
	RespectSpread bool
}

// Last returns the last stage of the class, which has no preferences.
func (c *PodClass) Last() *Stage { return &c.Stages[len(c.Stages)-1] }

// ClassesOf groups the pending pods into pod equivalence classes. The classes are in the order in
// which they are packed: the largest first, by cpu, then memory, then the age of the oldest pod.
func ClassesOf(snap *cluster.Snapshot, m *Model) []PodClass {
	at := map[*cluster.Constraints]int32{}
	var counts []int
	of := make([]int32, len(snap.Pending))
	for i := range snap.Pending {
		c, ok := at[snap.Pending[i].Constraints]
		if !ok {
			c = int32(len(counts))
			at[snap.Pending[i].Constraints] = c
			counts = append(counts, 0)
		}
		of[i] = c
		counts[c]++
	}
	classes, pods := make([]PodClass, len(counts)), make([]int32, len(snap.Pending))
	needs := make(quantity.Vector, len(counts)*len(m.Space))
	for c, n := range counts {
		classes[c].Pods, pods = pods[:0:n], pods[n:]
	}
	for i, c := range of {
		cl := &classes[c]
		if cl.Constraints == nil {
			cl.Constraints, cl.Need, needs = snap.Pending[i].Constraints, needs[:len(m.Space):len(m.Space)], needs[len(m.Space):]
			cl.IsBuffer = snap.Pending[i].Buffer != ""
			m.Space.Fill(cl.Need, cl.Constraints.Requests)
			cl.Weight = LabelWeight(cl.Constraints)
		}
		cl.Pods = append(cl.Pods, int32(i))
	}
	older := ByAge(snap)
	for c := range classes {
		slices.SortFunc(classes[c].Pods, func(a, b int32) int {
			if running := snap.Pending[a].Running; running != snap.Pending[b].Running { // it can wait longer
				if running {
					return 1
				}
				return -1
			}
			return older(a, b)
		})
	}
	cpu, memory := slices.Index(m.Space, quantity.CPU), slices.Index(m.Space, quantity.Memory)
	slices.SortFunc(classes, func(a, b PodClass) int {
		if c := cmp.Or(cmp.Compare(b.Need[cpu], a.Need[cpu]), cmp.Compare(b.Need[memory], a.Need[memory])); c != 0 {
			return c
		}
		return older(a.Pods[0], b.Pods[0])
	})
	for c := range classes {
		classes[c].Index = c
	}
	return classes
}

// labelsUnit is how many requirements, tolerations and ports are compared with a node for a unit
// of effort.
const labelsUnit = 4

// LabelWeight returns the effort of comparing a pod with the labels and taints of one node.
func LabelWeight(sh *cluster.Constraints) int { return 1 + sh.LabelWeight()/labelsUnit }

// ByAge returns the order of pending pods by age, and those of equal age by name.
func ByAge(snap *cluster.Snapshot) func(a, b int32) int {
	return func(a, b int32) int {
		x, y := &snap.Pending[a], &snap.Pending[b]
		if c := x.Created.Compare(y.Created); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}
}

// leastOf returns, for each resource, the least that a pod of any class asks for.
func leastOf(classes []PodClass) quantity.Vector {
	least := slices.Clone(classes[0].Need)
	for c := range classes {
		for r, n := range classes[c].Need {
			least[r] = min(least[r], n)
		}
	}
	return least
}

// Take assigns the first n unplaced pods of the class to a node.
func (c *PodClass) Take(placed []Assignment, n int, at Assignment) {
	for _, p := range c.Pods[:n] {
		placed[p] = at
	}
	c.Pods = c.Pods[n:]
}

// Assignment is the node that a pending pod is assigned to, as an index into the existing or the
// planned nodes. The zero value is an unplaced pod.
type Assignment struct {
	Kind  assignmentKind
	Index int32
}

type assignmentKind uint8

// Where a pod is: on no node yet, on a node of the snapshot, or on one that the plan launches.
const (
	Unplaced assignmentKind = iota
	OnExisting
	OnPlanned
)
