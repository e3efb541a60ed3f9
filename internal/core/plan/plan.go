// Package plan is what the core decides, as values that say what should be done and why,
// complete enough that the shell needs no judgement of its own to do it: Plan is what
// provisioning decides, Disruption what disruption decides. It imports the core's values
// only.
package plan

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Plan is what provisioning decides about one snapshot. Every pending pod is in exactly one
// of Assignments, a launch's Pods, and Refusals. The zero Plan decides nothing.
type Plan struct {
	// At is the instant of the snapshot.
	At time.Time
	// Assignments are pods assigned to nodes that exist or are on their way.
	Assignments []Assignment
	Launches    []Launch
	Refusals    []Refusal
	// BoundHourly is what the launches must cost at least, in dollars: no plan that places
	// the same pods is cheaper. 0: not known.
	BoundHourly float64
	// Idle are the pools of which no instance type can be launched, with the reason.
	Idle []verdict.Verdict
	// GivenUp are the causes for which the decision was given up, and made again without some of
	// the pods: CauseEffort, or a bug in words. Nil: it was made at once.
	GivenUp []string
	// Effort is how many units of package effort the decision took, if not given up.
	Effort int64
}

// Disruption is what disruption decides about one snapshot: which nodes go, and what is
// launched before. The zero Disruption decides nothing.
type Disruption struct {
	// At is the instant of the snapshot.
	At time.Time
	// Commands are the commands that are worth beginning, best first. Each is safe by itself,
	// and so is every beginning of the sequence.
	Commands []Command
	// Undos are the commands in progress that must be undone.
	Undos []Undo
	// Marks are nodes of commands in progress that lack the disrupted taint; Unmarks are
	// nodes that have it, or a disruption reason, without a command; Removals are nodes to
	// be deleted now.
	Marks, Unmarks, Removals []Removal
	// SoftTaints are Nodes that get a PreferNoSchedule taint, because a later command removes
	// them, or because others are to be filled first; SoftTaintsOver are those that lose it.
	SoftTaints, SoftTaintsOver []string
	// Scores are what pools whose policy is Balanced found of Steps, and of commands that
	// they rejected.
	Scores []Score
	// Eligible are how many nodes could be disrupted for each reason, budgets aside.
	Eligible []Eligible
	// Blocked are the nodes that would be removed but for something.
	Blocked []verdict.Verdict
	// FleetBoundHourly is what all nodes must cost at least, in dollars, wherever their pods
	// are; 0: it was not worked out.
	FleetBoundHourly float64
	// GivenUp are the causes for which searches were given up: CauseEffort, or a bug in
	// words. Nil: none was.
	GivenUp []string
}

// CauseEffort is in GivenUp for a decision that took too much effort.
const CauseEffort = "effort"

// Scaling is what brings a static pool to its number of nodes.
type Scaling struct {
	// At is the instant of the snapshot.
	At   time.Time
	Pool string
	// Missing is how many nodes the pool has too few, those that cannot be launched now included.
	Missing  int
	Launches []Launch
	// Removals are nodes that the pool has too many.
	Removals []Removal
	// Blocked says why fewer are launched than are missing; yes: they are all launched.
	Blocked verdict.Verdict
}

// Assignment means one pod for one node or claim of the snapshot.
type Assignment struct {
	Pod cluster.PodRef
	// Node is cluster.Node.Name. Claim is its claim; empty if it is not ours.
	Node, Claim string
}

// Launch is one node to be bought.
type Launch struct {
	Pool string
	// Requirements is what the node must be, the instance types included.
	Requirements label.Requirements
	// Requests is what its pods and daemons will ask for together.
	Requests quantity.List
	Pods     []cluster.PodRef
	// Types are the instance types that hold the pods, cheapest first.
	Types []string
	// PriceHourly is the cheapest offering's, in dollars.
	PriceHourly float64
	// MinValuesRelaxed reports that a minValues rule was lowered to what there is.
	MinValuesRelaxed bool
	// Replaces is the id of the step that the launch belongs to; empty: none.
	Replaces string
}

// Refusal is a pod that nothing can take, and why.
type Refusal struct {
	Pod cluster.PodRef
	Why verdict.Verdict
}

// Removal is a node to be removed by our choice.
type Removal struct {
	Node, Claim, Pool string
	// Reason is the API's word for it: Empty, Drifted, Underutilized.
	Reason string
}

// Command is one change of the running nodes. What it launches is initialized before the
// first pod of what it removes is evicted. No two steps of a plan remove the same
// node, move the same pod, or mean pods for a node that the other removes.
type Command struct {
	// ID names the step for good: a later one that does the same has another. It is given
	// to steps that are to be begun now.
	ID string
	// Reason is the API's word for it: Empty, Drifted, Underutilized; Expired for nodes
	// near the end of their time, Interrupted for those that the cloud takes away.
	Reason string
	Remove []Removal
	// Launch is what is bought instead. Its Pods are those of Remove that are meant for it,
	// and no others.
	Launch []Launch
	// Moves mean the other pods of Remove for nodes that are there.
	Moves []Assignment
	// Joins mean the rest for what earlier steps of the same list launch. The step cannot be
	// begun before those are there.
	Joins []Join
	// SavingHourly is the price of what goes less that of what comes, in dollars. It is
	// negative when the change costs money.
	SavingHourly float64
	// Evictions is how many pods must go elsewhere.
	Evictions int
	// NotBefore is the earliest time at which the step may be started; zero: at once.
	NotBefore time.Time
}

// Join means a pod for a launch of another step, both by their index.
type Join struct {
	Pod             cluster.PodRef
	Command, Launch int
}

// Score is how a pool that wants balance finds a step: the share of its price that the step saves,
// for the share of its disruption that the step causes.
type Score struct {
	// Node is the first node that the step removes.
	Node, Pool string
	Value      float64
	// Approved: all such pools find that enough.
	Approved bool
}

// Eligible is how many nodes could be disrupted for a reason.
type Eligible struct {
	Reason string
	Nodes  int
}

// Undo takes back a step that was begun, because it cannot or must not be finished.
type Undo struct {
	Command, Reason string
	// Drop are nodes that were launched for the step and have no pods. They go first,
	// then Open are opened again: a crash in between finds the step unfinished still.
	Drop, Open []Removal
	Why        verdict.Verdict
	// Failed reports that a replacement was not to be had in time or of no use, so that the
	// pools should be left alone for a while.
	Failed bool
}

// PriceHourly returns what the launches cost together, in dollars.
func (p *Plan) PriceHourly() float64 {
	var sum float64
	for i := range p.Launches {
		sum += p.Launches[i].PriceHourly
	}
	return sum
}
