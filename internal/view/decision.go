package view

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Kinds of actions.
const (
	// ActionLaunch is a node for pending pods, for buffers, or of a static pool.
	ActionLaunch = "launch"
	// ActionPlace is a set of pending pods that an existing node can take.
	ActionPlace = "place"
	// ActionRefuse is a set of pending pods that nothing can take.
	ActionRefuse = "refuse"
	// ActionBegin is a command that was begun: nodes are to be removed, perhaps after others are launched.
	ActionBegin = "begin"
	// ActionProposed is a command that was not begun by the decision.
	ActionProposed = "propose"
	// ActionTaint is a node of a command that gets the disrupted taint again.
	ActionTaint = "taint"
	// ActionUntaint is a node that loses the disrupted taint.
	ActionUntaint = "untaint"
	// ActionDelete is a node that is deleted.
	ActionDelete = "delete"
	// ActionCancel is a command in progress that is undone.
	ActionCancel = "cancel"
	// ActionReboot is an instance that is rebooted.
	ActionReboot = "reboot"
	// ActionFail is a decision that failed, or that could not be carried out.
	ActionFail = "fail"
)

// Decision is one decision: what was done, and what came of it.
type Decision struct {
	Head
	ID   string `json:"id"`
	Loop string `json:"loop"`
	// Version is the program's that decided.
	Version     string        `json:"version,omitempty"`
	Took        time.Duration `json:"tookNanoseconds"`
	PendingPods int           `json:"pendingPods"`
	Nodes       int           `json:"nodes"`
	// PriceBefore is the known price of the nodes that were not being deleted, PriceAfter that with the plan.
	PriceBefore float64 `json:"priceBeforeHourlyDollars"`
	PriceAfter  float64 `json:"priceAfterHourlyDollars"`
	// PriceBoth is the price while the nodes that commands launch run beside those that they remove; 0: no command
	// launches any.
	PriceBoth float64 `json:"priceWhileBothRunHourlyDollars,omitempty"`
	// LaunchBound is what the launches must cost at least, FleetBound what all nodes must; 0: not known.
	LaunchBound float64 `json:"launchBoundHourlyDollars,omitempty"`
	FleetBound  float64 `json:"fleetBoundHourlyDollars,omitempty"`
	// Again is how often the same was decided later, Until when the last time.
	Again int64     `json:"again,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// HasSnapshot: it can be made again.
	HasSnapshot bool     `json:"hasSnapshot"`
	Actions     []Action `json:"actions"`
	// Stays is how many nodes were not disrupted that a reason was given for.
	Stays  int     `json:"stays"`
	Result *Result `json:"result,omitempty"`
}

// Result is what came of the commands and launches of a decision.
type Result struct {
	// Done and Cancelled are how many commands ended so; the others, Open, had not ended at Known, the time
	// of the last decision that is known.
	Done      int       `json:"done"`
	Cancelled int       `json:"cancelled"`
	Open      int       `json:"open"`
	Known     time.Time `json:"known"`
	// PriceHourly is what the nodes cost at At, by the first decision after the last of them ended; 0: not known.
	PriceHourly float64   `json:"priceHourlyDollars,omitempty"`
	At          time.Time `json:"at,omitzero"`
	// PodsThere of PodsPlanned pods are where they were planned: those of launches and commands of which that is known.
	PodsPlanned int `json:"podsPlanned,omitempty"`
	PodsThere   int `json:"podsWherePlanned,omitempty"`
}

// Action is one thing that a decision did.
type Action struct {
	// At and Decision say by which decision, and when.
	At       time.Time `json:"at"`
	Decision string    `json:"decision"`
	Kind     string    `json:"action"`
	// Reason is the disruption reason, or the reason of a refusal; the loop's name for launches and placed pods.
	Reason string   `json:"reason"`
	Pools  []string `json:"pools,omitempty"`
	// Remove are the nodes that go, are tainted or rebooted, or that a cancelled command keeps; of placed pods
	// it is their node.
	Remove []ActionNode  `json:"nodes,omitempty"`
	Launch []PlannedNode `json:"launches,omitempty"`
	// Drop is how many replacements a cancelled command removes.
	Drop int `json:"drop,omitempty"`
	// Pods are those that it is about: placed, refused, moved, or for whom a node is launched. PodNames are some.
	Pods       int      `json:"pods"`
	PodNames   []string `json:"podNames,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Evictions  int      `json:"evictions,omitempty"`
	// SavingHourly is what a command saves; below zero it costs.
	SavingHourly float64 `json:"savingHourlyDollars,omitempty"`
	// Why says in words why not, and Ends what would end that.
	Why  string `json:"why,omitempty"`
	Ends string `json:"ends,omitempty"`
	// Outcome is what came of it; nil: nothing that is known.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Landed says where the pods that a command moved went; nil: that is not known, or not yet.
	Landed *LaunchOutcome `json:"podsOutcome,omitempty"`
}

// ActionNode is a node of an action. Its type and price are not known where the snapshot is not kept.
type ActionNode struct {
	Name         string  `json:"name"`
	Claim        string  `json:"claim,omitempty"`
	InstanceType string  `json:"instanceType,omitempty"`
	CapacityType string  `json:"capacityType,omitempty"`
	Zone         string  `json:"zone,omitempty"`
	PriceHourly  float64 `json:"priceHourlyDollars,omitempty"`
	HasPrice     bool    `json:"hasPrice"`
}

// PlannedNode is a node to be launched.
type PlannedNode struct {
	Pool string `json:"pool"`
	// Claim is the NodeClaim that was created; empty: none was, or it is not known.
	Claim string `json:"claim,omitempty"`
	// InstanceType is the cheapest of so many Types that hold the pods.
	InstanceType string  `json:"instanceType"`
	Types        int     `json:"types"`
	PriceHourly  float64 `json:"priceHourlyDollars"`
	Pods         int     `json:"pods"`
	// Landed says where its pods went; nil: that is not known, or not yet.
	Landed *LaunchOutcome `json:"podsOutcome,omitempty"`
}

// LaunchOutcome says where the pods of a launch or a command went. Pods that are evicted come back under other names. Those
// of a command are counted by what made them; of a launch for pending pods they are not counted.
type LaunchOutcome struct {
	// There of Pods were seen on the launch's node; the others went elsewhere, are gone or still waited at At.
	There int       `json:"there"`
	Pods  int       `json:"pods"`
	At    time.Time `json:"at"`
}

// AllLanded returns where pods of the action went, as far as that is known.
func (a *Action) AllLanded() (all []*LaunchOutcome) {
	if a.Landed != nil {
		all = append(all, a.Landed)
	}
	for i := range a.Launch {
		if l := a.Launch[i].Landed; l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Outcome is what came of an action.
type Outcome struct {
	// Done: its nodes were deleted. Cancelled: it was undone. Neither: it had not ended when last decided.
	Done      bool      `json:"done,omitempty"`
	Cancelled bool      `json:"cancelled,omitempty"`
	At        time.Time `json:"at"`
	// Decision is the one that ended it.
	Decision string `json:"decision,omitempty"`
	// Deleted is how many of the nodes were deleted.
	Deleted int    `json:"deleted,omitempty"`
	Why     string `json:"why,omitempty"`
}

// History is what was done in a span of time, the newest first.
type History struct {
	Head
	// Since and Until bound it; zero: not bounded. Oldest is the first decision that is kept: before it nothing
	// is known.
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Oldest  time.Time `json:"oldest,omitzero"`
	Actions []Action  `json:"actions"`
	// Reasons sum up the commands, by reason and NodePool.
	Reasons []ReasonSum `json:"reasons"`
	// Prices are what the nodes cost by the decisions in that time; none: no decision is known.
	Prices *PriceSpan `json:"prices,omitempty"`
}

// ReasonSum sums up the commands of a disruption reason in a NodePool.
type ReasonSum struct {
	Reason string `json:"reason"`
	Pool   string `json:"pool"`
	// First and Last are when the first and last of them was begun.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Begun counts commands, Nodes the nodes that they remove; of these Deleted were, Kept were not because their
	// commands were cancelled, and the others had not gone when last decided.
	Begun     int `json:"begun"`
	Nodes     int `json:"nodes"`
	Deleted   int `json:"deleted"`
	Kept      int `json:"kept"`
	Launches  int `json:"launches"`
	Evictions int `json:"evictions"`
	// SavingHourly is what they were to save.
	SavingHourly float64 `json:"savingHourlyDollars"`
	// Causes count why commands were cancelled.
	Causes []CauseCount `json:"causes,omitempty"`
}

// CauseCount is how often a command was cancelled for a reason.
type CauseCount struct {
	Reason verdict.Reason `json:"reason"`
	Count  int            `json:"count"`
}

// PriceSpan is the price of the nodes over time.
type PriceSpan struct {
	First   float64   `json:"firstHourlyDollars"`
	FirstAt time.Time `json:"firstAt"`
	Last    float64   `json:"lastHourlyDollars"`
	LastAt  time.Time `json:"lastAt"`
	Least   float64   `json:"leastHourlyDollars"`
	LeastAt time.Time `json:"leastAt"`
	Peak    float64   `json:"peakHourlyDollars"`
	PeakAt  time.Time `json:"peakAt"`
	Points  []Point   `json:"points"`
}

// Point is the price of the nodes at a decision.
type Point struct {
	At          time.Time `json:"at"`
	Decision    string    `json:"decision"`
	PriceHourly float64   `json:"priceHourlyDollars"`
}
