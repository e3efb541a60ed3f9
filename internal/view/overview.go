package view

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// firstEntries is how many next entries and blockers an overview has.
const firstEntries = 5

// Overview is the cluster at a glance.
type Overview struct {
	Head
	Health Health `json:"health"`
	Price  Price  `json:"price"`
	// Bound is the newest bound; nil: none is known.
	Bound *Bound     `json:"bound,omitempty"`
	Nodes NodeCounts `json:"nodes"`
	// Foreign is how many nodes have no NodeClaim; they are in none of the other figures.
	Foreign int `json:"nodesWithoutClaim"`
	// Usage is that of nodes with a NodeClaim.
	Usage    Usage          `json:"usage"`
	Pools    int            `json:"pools"`
	Pending  PendingSummary `json:"pending"`
	Next     []Entry        `json:"next"`
	Blockers []Blocker      `json:"blockers"`
}

// PendingSummary counts pending pods.
type PendingSummary struct {
	Pods    int `json:"pods"`
	Refused int `json:"refused"`
}

// Health is whether anything needs a person.
type Health struct {
	Healthy  bool      `json:"healthy"`
	Findings []Finding `json:"findings"`
}

// Finding is one thing that needs a person. Kind and Name say what it is about.
type Finding struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// String returns the finding with what it is about.
func (f Finding) String() string {
	if f.Name == "" {
		return f.Text
	}
	return f.Kind + " " + f.Name + ": " + f.Text
}

// OverviewOf returns the cluster at a glance.
func OverviewOf(s *State) Overview { return overviewOf(newReader(s)) }

// FleetAndOverviewOf returns both for less than each by itself.
func FleetAndOverviewOf(s *State) (Fleet, Overview) {
	r := newReader(s)
	return fleetOf(r), overviewOf(r)
}

func overviewOf(r *reader) Overview {
	s, v := r.State, Overview{Head: r.head("Overview"), Pools: len(r.Snapshot.Pools)}
	for i := range s.Snapshot.Nodes {
		n := &s.Snapshot.Nodes[i]
		if n.Claim == "" {
			v.Foreign++
			continue
		}
		v.Nodes.add(n)
		v.Price.add(r, n)
		v.Usage.add(n)
	}
	for i := range s.Snapshot.Pending {
		if s.Snapshot.Pending[i].Buffer == "" {
			v.Pending.Pods++
		}
	}
	v.Pending.Pods += len(s.Snapshot.Excluded)
	v.Pending.Refused = refusedOf(s)
	if s.Bound.LeastHourly > 0 {
		bound := s.Bound
		v.Bound = &bound
	}
	v.Health = healthOf(s, v.Pending.Refused, v.Nodes.NotReady)
	next, blockers := nextOf(r).Entries, blockersOf(r).Blockers
	v.Next = next[:min(len(next), firstEntries)]
	v.Blockers = blockers[:min(len(blockers), firstEntries)]
	return v
}

// healthOf returns what needs a person.
func healthOf(s *State, refused, notReady int) Health {
	h := Health{Findings: []Finding{}}
	find := func(kind, name, format string, args ...any) {
		h.Findings = append(h.Findings, Finding{kind, name, fmt.Sprintf(format, args...)})
	}
	if len(s.Snapshot.Pools) == 0 {
		find("NodePool", "", "there is no NodePool, so nothing can be launched")
	}
	for i := range s.Snapshot.Pools {
		p := &s.Snapshot.Pools[i]
		if p.Unready != "" {
			find("NodePool", p.Name, "nothing is launched from it: %s", p.Unready)
		}
		if p.Paused != "" {
			find("NodePool", p.Name, "disruption is paused: %s", p.Paused)
		}
		for _, b := range p.Budgets {
			if b.Invalid != "" {
				find("NodePool", p.Name, "a disruption budget cannot be read, and allows nothing: %s", b.Invalid)
			}
		}
	}
	if refused > 0 {
		find("Pods", "", "%s can have no node", counted(refused, "pod"))
	}
	if notReady > 0 {
		find("Node", "", "%s %s not ready", counted(notReady, "node"), verb(notReady, "is", "are"))
	}
	for _, fault := range s.Faults {
		if fault == plan.CauseEffort {
			fault = "a decision was given up because it took too long"
		}
		find("Decision", "", "%s", fault)
	}
	h.Healthy = len(h.Findings) == 0
	return h
}
