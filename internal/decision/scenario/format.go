package scenario

import "slices"

// Names of the formats.
const (
	Format     = "kscen/1"
	PlanFormat = "kplan/1"
)

// Scenario is a kscen/1 file: cpu in millicores, memory in MiB, prices in dollars per hour.
type Scenario struct {
	Format        string         `json:"format"`
	Name          string         `json:"name"`
	Description   string         `json:"description,omitempty"`
	Catalog       string         `json:"catalog,omitempty"`
	InstanceTypes []InstanceType `json:"instanceTypes"`
	NodePools     []NodePool     `json:"nodePools"`
	DaemonSets    []DaemonSet    `json:"daemonSets"`
	Nodes         []Node         `json:"nodes"`
	PodGroups     []PodGroup     `json:"podGroups"`
	// NodeDomains has spread count the domains of nodes that there are, as kube-scheduler does; else those in which
	// nodes could be launched count, too. It is an extension of kscen/1.
	NodeDomains bool `json:"nodeDomains,omitempty"`
}

// Consolidates reports whether the question is what to do about the nodes that there are:
// no pods are pending.
func (s *Scenario) Consolidates() bool {
	return len(s.Nodes) > 0 && !slices.ContainsFunc(s.PodGroups, func(g PodGroup) bool { return g.N > 0 })
}

// InstanceType is an instance type that can be launched.
type InstanceType struct {
	Name        string           `json:"name"`
	CPU         int64            `json:"cpu"`
	Mem         int64            `json:"mem"`
	Pods        int64            `json:"pods"`
	ReservedCPU int64            `json:"reservedCpu"`
	ReservedMem int64            `json:"reservedMem"`
	Ext         map[string]int64 `json:"ext,omitempty"`
	Reqs        []Requirement    `json:"reqs"`
	Offerings   []Offering       `json:"offerings"`
}

// Requirement is what one label may or must be.
type Requirement struct {
	Key    string   `json:"key"`
	Op     string   `json:"op"`
	Values []string `json:"values,omitempty"`
}

// Offering is where and how a type can be launched.
type Offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"ct"`
	Price        float64 `json:"price"`
	Unavailable  bool    `json:"unavailable,omitempty"`
}

// NodePool is a set of rules under which nodes may be launched. A limit of 0 is none.
type NodePool struct {
	Name         string        `json:"name"`
	Weight       int32         `json:"weight,omitempty"`
	Requirements []Requirement `json:"requirements,omitempty"`
	LimitCPU     int64         `json:"limitCpu,omitempty"`
	LimitMem     int64         `json:"limitMem,omitempty"`
}

// DaemonSet is a pod that runs on every node.
type DaemonSet struct {
	Name string `json:"name"`
	CPU  int64  `json:"cpu"`
	Mem  int64  `json:"mem"`
}

// Node is a running node with the pods bound to it.
type Node struct {
	Name         string  `json:"name"`
	Type         string  `json:"type"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"ct"`
	Pool         string  `json:"pool"`
	Pods         []Share `json:"pods,omitempty"`
}

// Share is a number of pods of a group: its index, then how many.
type Share [2]int

// Group returns the index of the group.
func (s Share) Group() int { return s[0] }

// Count returns how many pods of it.
func (s Share) Count() int { return s[1] }

// PodGroup is N pending pods that are alike.
type PodGroup struct {
	Name         string            `json:"name,omitempty"`
	N            int               `json:"n"`
	CPU          int64             `json:"cpu"`
	Mem          int64             `json:"mem"`
	Ext          map[string]int64  `json:"ext,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Spread       []Spread          `json:"spread,omitempty"`
	Affinity     []Term            `json:"affinity,omitempty"`
	AntiAffinity []Term            `json:"antiAffinity,omitempty"`
	// DisruptionsAllowed is how many of the group's pods may be away at once; absent: any
	// number. DoNotDisrupt keeps them where they are. Both are extensions of kscen/1.
	DisruptionsAllowed *int32 `json:"disruptionsAllowed,omitempty"`
	DoNotDisrupt       bool   `json:"doNotDisrupt,omitempty"`
}

// Spread is a topology spread constraint; a soft one is a preference.
type Spread struct {
	Key         string            `json:"key"`
	MaxSkew     int32             `json:"maxSkew"`
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	Soft        bool              `json:"soft,omitempty"`
}

// Term is a required term of pod affinity or anti-affinity.
type Term struct {
	Key         string            `json:"key"`
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// Plan is a kplan/1 file: it answers a scenario with pending pods or, in mode
// "consolidate", one without.
type Plan struct {
	Format            string     `json:"format"`
	Scenario          string     `json:"scenario"`
	Mode              string     `json:"mode,omitempty"`
	SolveWallSeconds  float64    `json:"solveWallSeconds"`
	SolveUserSeconds  float64    `json:"solveUserSeconds"`
	PricePerHour      float64    `json:"pricePerHour"`
	LowerBoundPerHour float64    `json:"lowerBoundPerHour,omitempty"`
	NewNodes          []NewNode  `json:"newNodes"`
	Existing          []Existing `json:"existing"`
	Unschedulable     []Share    `json:"unschedulable"`
	// Resilience says what spreading workloads over nodes costs and gains; absent: the plan is the cheapest.
	Resilience string `json:"resilience,omitempty"`
	// Steps are those of mode "consolidate".
	Steps []Step `json:"steps,omitempty"`
	// Groups are the names of the groups that shares count, where there is no scenario
	// file that says so.
	Groups []string `json:"groups,omitempty"`
	// Buffers and Static are what becomes of CapacityBuffers and of NodePools with replicas, where
	// there are any. PricePerHour has the nodes for buffers in it, and not those of static pools.
	Buffers []BufferRoom `json:"buffers,omitempty"`
	Static  []StaticPool `json:"static,omitempty"`
}

// BufferRoom is for how many chunks of a CapacityBuffer there is room.
type BufferRoom struct {
	Name   string `json:"name"` // namespace/name
	Chunks int64  `json:"chunks"`
	// Held are on nodes that there are; nodes are launched for Launched.
	Held     int `json:"held"`
	Launched int `json:"launched"`
	// Says is what the buffer's condition Provisioning would say.
	Says string `json:"says"`
}

// StaticPool is what brings a NodePool to its replicas.
type StaticPool struct {
	Pool     string `json:"pool"`
	Replicas int    `json:"replicas"`
	// Nodes stay, Launched are missing, Removed are too many.
	Nodes        int     `json:"nodes"`
	Launched     int     `json:"launched"`
	Removed      int     `json:"removed"`
	PricePerHour float64 `json:"pricePerHour"`
	// Why says why fewer are launched than are missing.
	Why string `json:"why,omitempty"`
}

// NewNode is a node to launch.
type NewNode struct {
	Type         string  `json:"type"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"ct"`
	Pool         string  `json:"pool"`
	Pods         []Share `json:"pods"`
}

// Existing is pending pods that go to a node that is there.
type Existing struct {
	Node string  `json:"node"`
	Pods []Share `json:"pods"`
}
