// Package plan is what the core decides: values that say what should be done and why, complete
// enough that the shell needs no judgement of its own to do it. Plan is what provisioning
// decides, Disruption what disruption decides, Scaling what is decided about a static pool, and
// DeletionCost what about the pods of a node.
//
// It may import the core's values (cluster, label, quantity, verdict). Read Plan and Launch
// first, then Disruption and Command.
package plan

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Plan is what provisioning decides about one snapshot. Every pending pod is in exactly one
// of Assignments, a launch's Pods, and Refusals, and every excluded one in Refusals. The zero Plan decides nothing.
type Plan struct {
	// At is the instant of the snapshot.
	At time.Time
	// Assignments are pods assigned to existing nodes or in-flight NodeClaims.
	Assignments []Assignment
	Launches    []Launch
	Refusals    []Refusal
	// Buffers are the buffers of the snapshot, and where their chunks are. The lists above have
	// none of these chunks.
	Buffers []BufferRoom
	// BoundHourly is what the launches must cost at least, in dollars: no plan that places
	// the same pods is cheaper. 0: not known.
	BoundHourly float64
	// Idle are the pools of which no instance type can be launched, with the reason.
	Idle []verdict.Verdict
	// GivenUp has the cause of each time that the decision was given up, and made again without some
	// of the pods: CauseEffort, or a bug in words. Nil: it was made at once.
	GivenUp []string
	// Effort is how many units of package effort the decision took, if not given up.
	Effort int64
	// Resilience is what spreading workloads over nodes costs and gains; zero: the plan is the cheapest.
	Resilience Resilience
}

// Disruption is what disruption decides about one snapshot: which nodes are removed, and what is
// launched before that. The zero Disruption decides nothing.
type Disruption struct {
	// At is the instant of the snapshot.
	At time.Time
	// Commands are the commands that are worth beginning, the best first. Each is safe by itself,
	// and so are the first n of them together, for every n.
	Commands []Command
	// Undos are the commands in progress that must be undone.
	Undos []Undo
	// Marks are nodes of commands in progress that lack the disrupted taint; Unmarks are
	// nodes that have it, or a disruption reason, without a command; Removals are nodes to
	// be deleted now.
	Marks, Unmarks, Removals []Removal
	// Reboots are the nodes whose instances are to be rebooted, because that repairs them.
	Reboots []Reboot
	// SoftTaints are the nodes that get a PreferNoSchedule taint, because a later command removes
	// them, or because others are to be filled first. SoftTaintsOver are those that lose it.
	SoftTaints, SoftTaintsOver []string
	// Scores are how NodePools with the policy Balanced rate Commands, and the commands that they
	// reject.
	Scores []Score
	// Eligible are how many nodes could be disrupted for each reason, budgets aside.
	Eligible []Eligible
	// Blocked has, for nodes that would be removed otherwise, what blocks that.
	Blocked []verdict.Verdict
	// FleetBoundHourly is what all nodes must cost at least, in dollars, wherever their pods
	// are; 0: it was not worked out.
	FleetBoundHourly float64
	// GivenUp has the cause of each search that was given up: CauseEffort, or a bug in words. Nil:
	// none was.
	GivenUp []string
}

// FleetBound returns FleetBoundHourly; 0 too where nodes go for another reason than their cost, since it has these at
// their price.
func (d *Disruption) FleetBound() float64 {
	if slices.ContainsFunc(d.Commands, func(c Command) bool { return c.Reason != Underutilized }) {
		return 0
	}
	return d.FleetBoundHourly
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

// Assignment is one pod, and its target node among the nodes and NodeClaims of the snapshot.
type Assignment struct {
	Pod cluster.PodRef
	// Node is cluster.Node.Name. Claim is its NodeClaim; empty if the node is not ours.
	Node, Claim string
}

// Launch is one node to be launched: what its NodeClaim asks for, and the pods it is for. It has no
// pods if it is for chunks of capacity buffers only, or of a static pool.
type Launch struct {
	Pool string
	// Requirements is what the node must be, the instance types included.
	Requirements label.Requirements
	// Requests is what its pods and its DaemonSet pods ask for together.
	Requests quantity.List
	Pods     []cluster.PodRef
	// Types are the instance types that hold the pods, cheapest first.
	Types []string
	// PriceHourly is the price of the cheapest offering, in dollars an hour.
	PriceHourly float64
	// Chunks are the chunks of buffers that it is for besides, by buffer.
	Chunks []Chunks
	// MinValuesRelaxed reports that a minValues rule was lowered to what there is.
	MinValuesRelaxed bool
	// Replaces is the id of the command that the launch belongs to; empty: none.
	Replaces string
}

// Chunks is so many chunks of a capacity buffer on one node.
type Chunks struct {
	Buffer string // namespace/name
	Count  int
}

// BufferRoom is where the chunks of a capacity buffer are. Those that are neither Held nor
// Launched have no room.
type BufferRoom struct {
	Namespace, Name, UID string
	// Chunks is how many there must be.
	Chunks int
	// Held are those on nodes of the snapshot, by node.
	Held []Held
	// Launched is for how many of them nodes are launched.
	Launched int
	// Why is the first reason for which one has no room; yes: all have.
	Why verdict.Verdict
}

// Held is so many chunks on a node.
type Held struct {
	Node  string
	Count int
}

// HeldCount returns how many chunks are on nodes of the snapshot.
func (b *BufferRoom) HeldCount() (n int) {
	for _, h := range b.Held {
		n += h.Count
	}
	return n
}

// Refusal is a pod that nothing can take, and why.
type Refusal struct {
	Pod cluster.PodRef
	Why verdict.Verdict
}

// Removal is a node to be removed by our choice.
type Removal struct {
	Node, Claim, Pool string
	// Reason is the API's word for it: Empty, Drifted, Underutilized, Unhealthy.
	Reason string
	// Condition is the node condition that Unhealthy is about.
	Condition string
	// Bound is how long the drain may take.
	Bound cluster.Bound
}

// Reboot is a node whose instance is to be rebooted. Cause is the reason of its Condition.
type Reboot struct {
	Node, Claim, Pool string
	Condition, Cause  string
	// Bound is how long the drain before it may take.
	Bound cluster.Bound
}

// Command is one change of the running nodes. The nodes that it launches are initialized before
// the first pod of a node that it removes is evicted. No two commands of a plan remove the same
// node, move the same pod, or assign pods to a node that the other removes.
type Command struct {
	// ID identifies the command for ever: a later command that does the same has another. Only
	// commands that are to be begun now have one.
	ID string
	// Reason is the disruption reason: Empty, Drifted, Underutilized or Unhealthy; Expired for nodes
	// that expire soon, Interrupted for those that the cloud will take away.
	Reason string
	Remove []Removal
	// TerminateFirst is why the nodes are removed before anything can be launched for their pods:
	// StaticAtLimit or NoReservedCapacity; empty: they are not.
	TerminateFirst string
	// Launch is the replacements. Their Pods are pods of Remove, and no others.
	Launch []Launch
	// Moves assign other pods of Remove to existing nodes.
	Moves []Assignment
	// Joins assign the rest to nodes that earlier commands of the same list launch. The command
	// cannot be begun before those exist.
	Joins []Join
	// SavingHourly is the price of the removed nodes less that of the launched ones, in dollars an
	// hour. It is negative if the change costs money.
	SavingHourly float64
	// CostHourly is what a command for cost has to save at least.
	CostHourly float64
	// Evictions is how many pods must go elsewhere.
	Evictions int
	// NotBefore is the earliest time at which the command may be begun; zero: at once.
	NotBefore time.Time
}

// Join assigns a pod to a launch of another command, both by their index.
type Join struct {
	Pod             cluster.PodRef
	Command, Launch int
}

// Score is how a NodePool with the policy Balanced rates a command: the share of the pool's price
// that the command saves, divided by the share of the pool's disruption that it causes.
type Score struct {
	// Node is the first node that the command removes.
	Node, Pool string
	Value      float64
	// Approved: the score suffices for all such pools.
	Approved bool
}

// Eligible is how many nodes could be disrupted for a reason.
type Eligible struct {
	Reason string
	Nodes  int
}

// DeletionCost is what the pods of a node get as the cost of their deletion, by which ReplicaSets
// choose when they are scaled down: the lowest goes first.
type DeletionCost struct {
	Node, Pool string
	Cost       int32
	// None: they have none, so Kubernetes' own order counts.
	None bool
	// Going: the node goes away already.
	Going bool
}

// Undo cancels a command in progress, because it cannot or must not be finished.
type Undo struct {
	Command, Reason string
	// Drop are nodes that were launched for the command and have no pods. They are removed first,
	// then the nodes in Open lose the disrupted taint. After a crash in between the command is still
	// in progress.
	Drop, Open []Removal
	Why        verdict.Verdict
	// Failed: a replacement did not come in time or was of no use, so the pools have a cooldown.
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
