package cluster

import "time"

// ReschedulablePod is a pod that needs another node if its node is removed.
type ReschedulablePod struct {
	PodRef
	Created time.Time
	// Constraints is shared by all pods that are alike to the scheduler.
	Constraints *Constraints
	// DeletionCost is what the pod says that its eviction costs, by its annotation
	// karpenter.sh/disruption-cost or controller.kubernetes.io/pod-deletion-cost; 0: nothing.
	DeletionCost float64
	Priority     int32
	// Controller is the kind of what made the pod ("ReplicaSet"); empty: nothing, so nobody
	// makes another when it is evicted.
	Controller string
	// DoNotDisrupt says why the pod may not be evicted by our choice ("annotation
	// karpenter.sh/do-not-disrupt"); empty: it may be, as far as its PDBs let it.
	DoNotDisrupt string
	// PDBs are the indexes in Snapshot.PDBs of those that count its eviction.
	PDBs []int
	// Moved is when the pod came, perhaps in the place of one that was evicted; zero: it did not
	// replace one, or that is long ago.
	Moved time.Time
	// Moves is how many times in a row that happened, each not long after the last; 0: once, as
	// far as is known.
	Moves int
	// TargetNode is the NodeClaim or node that the command in progress means the pod for; empty:
	// it is not known.
	TargetNode string
	// Buffer is the namespace/name of the capacity buffer that the pod is a chunk of: it does not
	// exist, and moving it evicts nobody. Empty: the pod exists.
	Buffer string
}

// EvictionCost returns what the eviction of the pod counts as beside that of an ordinary one, which
// is 1, from -10 to 10: by what it says and by its priority.
func (r *ReschedulablePod) EvictionCost() float64 {
	return min(10, max(-10, 1+r.DeletionCost/(1<<27)+float64(r.Priority)/(1<<25)))
}

// Evictions returns how many pods are evicted if the node is removed.
func (n *Node) Evictions() (pods int) {
	for i := range n.Reschedulable {
		if n.Reschedulable[i].Buffer == "" {
			pods++
		}
	}
	return pods
}

// PodDisruptionBudget is a PodDisruptionBudget.
type PodDisruptionBudget struct {
	Name string // namespace/name
	// Allowed is how many of the pods it selects may be evicted now.
	Allowed int32
}

// Consolidation policies, in the API's words.
const (
	PolicyEmpty         = "WhenEmpty"
	PolicyUnderutilized = "WhenEmptyOrUnderutilized"
	PolicyBalanced      = "Balanced"
)

// Disruption is what is known of a node that may have to go by our choice, or is
// about to. The zero value is a node that nothing is wrong with.
type Disruption struct {
	// DoNotDisruptByPods: Node.DoNotDisrupt is about one of the pods, not about the node itself.
	DoNotDisruptByPods bool
	// HasGrace: its claim has a terminationGracePeriod, Grace, so pods cannot hold it for ever.
	HasGrace bool
	Grace    time.Duration
	// Registered: its Node has joined. Only such a node is repaired.
	Registered bool
	// Ailments are what repair policies say of the node; none: it is well.
	Ailments []Ailment
	// DoNotRepair: the annotation karpenter.sh/do-not-repair forbids its repair.
	DoNotRepair bool
	// Rebooting: its instance is being restarted, and the node comes back, unless it is deleted because it did not.
	Rebooting bool
	// Drifted says how the node differs from what its pool would launch now; empty: it
	// does not. DriftedSince is when that was found.
	Drifted      string
	DriftedSince time.Time
	// Deadline is when its drain ends what is left on it; zero: never, or it is not leaving.
	Deadline time.Time
	// Ending: the termination of its instance is asked for, and only that is waited for.
	Ending bool
	// Step is the id of the command that the node is a candidate of; empty: none. The command
	// removes StepRemoves nodes and launched StepLaunches.
	Step                      string
	StepRemoves, StepLaunches int
	// StepTerminatesFirst: the command removes its nodes though their pods have no target nodes.
	StepTerminatesFirst bool
	// Replaces is the id of the command that the node was launched for; empty: none.
	Replaces string
	// SoftTaint: kube-scheduler is asked to put pods elsewhere if it can, because the node
	// is to go later, or to be filled later.
	SoftTaint bool
	// DeletionCandidate: Cluster Autoscaler asks for the same, because it may delete the node later.
	DeletionCandidate bool
}

// PrefersOthers reports whether pods are better put on other nodes.
func (d *Disruption) PrefersOthers() bool { return d.SoftTaint || d.DeletionCandidate }

// Bound is how long a drain may take. The zero value is for as long as the NodeClaim says. Within 0 pods
// are deleted by force at once.
type Bound struct {
	IsSet  bool
	Within time.Duration
}

// Or returns the shorter of two bounds.
func (b Bound) Or(other Bound) Bound {
	if !b.IsSet || other.IsSet && other.Within < b.Within {
		return other
	}
	return b
}

// Ailment is what one repair policy says of a node: which of its conditions is bad, and what to do
// once that has lasted for too long.
type Ailment struct {
	Condition, Status, Reason string
	// Due is from when on the node may be repaired.
	Due time.Time
	// Bound is how long its drain may take.
	Bound Bound
	// Rank is the policy's place by priority among all policies: 0 is the lowest.
	Rank int
	// Reboot: the instance is restarted, else the node is replaced.
	Reboot bool
}
