// Package cluster is the world as the core sees it: one value, Snapshot, with
// everything a decision may depend on, "now" included. It is built by internal/kube/mirror
// (or by a test from a file) and never changed afterwards.
//
// Read Snapshot first; then Pod and Constraints (pod.go), Node, Pool. It may import catalog, label
// and quantity.
package cluster

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Snapshot is the cluster at one instant. Pools, Nodes, Pods and Daemons are sorted by
// name, and whoever decides goes through them in that order.
type Snapshot struct {
	At time.Time
	// Pending are the pods that ask for a node: no node has them, and kube-scheduler said
	// that none can.
	Pending []Pod
	// Excluded are pods that need a node, and for which nothing is launched now. Nothing else
	// is decided about them; sorted as Pending is.
	Excluded []ExcludedPod
	// Gangs are those that pending pods are of, as far as they are known; sorted by namespace
	// and name.
	Gangs []Gang
	// Buffers are the CapacityBuffers in force, sorted by namespace and name.
	Buffers []Buffer
	// Nodes are the nodes that may take pods, and NodeClaims whose Nodes are still to come.
	Nodes   []Node
	Pools   []Pool
	Daemons []Daemon
	// PDBs are the PodDisruptionBudgets, sorted by name.
	PDBs []PodDisruptionBudget
	// Namespaces are the labels of each namespace.
	Namespaces map[string]map[string]string
	// WellKnown are the label keys that a pool without a word on them leaves open.
	WellKnown map[string]bool
	// ReservationKey is the label key that names a reservation; empty: there are none.
	ReservationKey string
}

// Daemon is a DaemonSet: every node that it selects carries one pod of these constraints.
type Daemon struct {
	Name        string // namespace/name
	Constraints *Constraints
}

// Effects of taints.
const (
	NoSchedule       = "NoSchedule"
	PreferNoSchedule = "PreferNoSchedule"
	NoExecute        = "NoExecute"
)

// Taint keeps pods that do not tolerate it away.
type Taint struct {
	Key, Value, Effect string
}

// String returns key=value:effect.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// Node is a node of the cluster: a Node object, or a NodeClaim whose Node is still to come.
type Node struct {
	// Name is the Node's, or the claim's while there is no Node.
	Name  string
	Claim string // empty: not ours
	Pool  string // empty: of no pool
	// Labels are what the node is known to carry.
	Labels map[string]string
	// Taints are those that pods must tolerate to be meant for the node. Those that go
	// away before it takes pods (start-up, not ready) are left out.
	Taints []Taint
	// Capacity counts against the pool's limits. Allocatable is what pods may use.
	Capacity, Allocatable quantity.List
	// Used is what its pods ask for; UsedByDaemons is the part of it that is daemons'.
	Used, UsedByDaemons quantity.List
	Ports               []HostPort
	// Daemons are the names of those that have a pod on it.
	Daemons []string
	// Pods are those that other pods' rules may count, by their constraints. Pods that are pending in
	// the snapshot, because their node is going, are not among them.
	Pods []PodCount
	// Reschedulable are the pods that would want another node if this one went, sorted as
	// Pending is. They are among Pods too, unless the node is leaving.
	Reschedulable []ReschedulablePod
	// InFlight is set while the cloud has not yet said what the node is.
	InFlight *InFlightClaim

	Initialized bool
	// Deleting: it is being removed, so pods must not be meant for it.
	Deleting bool
	// Ready is the Node's condition; false while there is no Node.
	Ready bool
	// Created is when the claim (or the Node, if there is none) was.
	Created time.Time
	// Expires is when it is removed because of its age, budgets or not; zero: never.
	Expires time.Time
	// DueShare says when the node is to be replaced before it expires, as a share of the time for that, in parts of 2^32;
	// 0: it follows from the name of its NodeClaim. Redacted snapshots, which have other names, say it.
	DueShare uint32
	// Reclaimed is why the cloud takes the node away then, whatever its age: the kind of
	// its notice; empty: it does not.
	Reclaimed string
	// Empty: no pod would have to go elsewhere if it were removed.
	Empty bool
	// LastPodEvent is when a pod last came or went; when it was initialized, if later.
	LastPodEvent time.Time
	// DoNotDisrupt says why the node must not be disrupted ("annotation karpenter.sh/do-not-disrupt"); empty: it may be.
	DoNotDisrupt string
	// DisruptionReason is the reason for which we marked the node for disruption, DisruptedSince when;
	// empty: it is not. The mark is in force once the node is Closed to new pods.
	DisruptionReason string
	DisruptedSince   time.Time
	DisruptedTaint   bool
	// Planned is how many pods an earlier plan meant for it that are not there. Of those that
	// come for pods that are to be evicted, nobody knows how many: they count as one.
	Planned int
	// PlannedUntil is until when the node is held for those; zero or past: it is not.
	PlannedUntil time.Time
	Disruption
}

// InFlightClaim is what is known of a claim before the cloud has answered: it will be one
// of these types, within these requirements.
type InFlightClaim struct {
	Requirements label.Requirements
	Types        []string
	// Accepted: the cloud has accepted the launch, so that what is left of supplies is beside it.
	Accepted bool `json:",omitempty"`
}

// Pool is a NodePool: what may be launched, and how much of it.
type Pool struct {
	Name   string
	Weight int32
	// Unready says why nothing may be launched from the pool; empty: it is ready.
	Unready string
	// Requirements has the template's requirements, labels, and the labels that every
	// node of the pool gets.
	Requirements label.Requirements
	Taints       []Taint
	// Types are all that the provider has for the pool, unavailable offerings included.
	Types []*catalog.Type
	// Limits caps the capacity of the pool's nodes, by resource; quantity.Nodes counts
	// them. A missing name is unlimited.
	Limits quantity.List
	// ConsolidateAfter is how long after the last pod event a node may be removed for being
	// empty or underutilized; negative: never.
	ConsolidateAfter time.Duration
	// Policy is the pool's consolidationPolicy; empty: PolicyUnderutilized.
	Policy string
	// Static pools have a fixed number of nodes, Replicas, whatever pods ask for.
	Static   bool
	Replicas int
	Budgets  []Budget
	// Paused says why no node of the pool is disrupted by choice at all; empty: nodes may be.
	Paused string
	// EvictionHourly is what consolidation must save for each ordinary pod that it evicts
	// from the pool's nodes, in dollars per hour; 0: what the operator says.
	EvictionHourly float64
	// SavingShareMin is the share of the price of the pool's nodes that their removal must
	// save besides; 0: what the operator says.
	SavingShareMin float64
}

// Budget caps how many of a pool's nodes may be disrupted at once.
type Budget struct {
	// Nodes is a count, or a percentage of the pool's nodes if Percent.
	Nodes   int
	Percent bool
	// Reasons the budget is for; empty: all.
	Reasons []string
	// Active reports whether the budget's schedule covers Snapshot.At.
	Active bool
	// Scheduled: it has a schedule, and so may become active, or cease to be, at any full minute.
	Scheduled bool
	// Invalid says why the budget cannot be read; such a one allows nothing. Empty: it can.
	Invalid string
}

// NotForPods says why nothing is launched from the pool for pods; empty: nodes may be.
func (p *Pool) NotForPods() string {
	if p.Static {
		return "it has a fixed number of replicas"
	}
	return p.Unready
}

// PoolByName returns the pool of that name.
func (s *Snapshot) PoolByName(name string) (*Pool, bool) {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i], true
		}
	}
	return nil, false
}
