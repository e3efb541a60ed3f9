package nominate

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// View is what Next decides about. Nodes and Pods are sorted by name.
type View struct {
	At time.Time
	// Nodes are those that ask to be opened, and the target nodes of Pods.
	Nodes []Node
	// Pods are the unbound pods that have a target node or a nomination of ours.
	Pods []Pod
	// Alike: whichever of the pods that kube-scheduler may try is bound to a node, it is in no other's place,
	// since all are the same. None needs a nomination for a node that opens.
	Alike bool
	// Coming is how many unbound pods are planned for nodes that have not joined.
	Coming int
	// ComingOf is how many of them are of each gang.
	ComingOf map[string]int
	// LastPodEvent is when the last event of one of the pods was observed: kube-scheduler writes why
	// whenever it has tried a pod in vain.
	LastPodEvent time.Time
	// WaitMost is how long a node that is ready waits for its pods' nominations at most.
	WaitMost time.Duration
}

// Node is a node that has joined.
type Node struct {
	Name  string
	Stage Stage
	// Asked is when it asked to be opened; zero if it did not.
	Asked time.Time
	// HasRoom: beside the pods planned for it, it has room for a pod that is planned for another node.
	HasRoom bool
	// ReadyAt is since when nothing but our taint keeps pods from it; zero: something else does.
	ReadyAt time.Time
}

// Stage is how far a node is open to pods.
type Stage string

// The stages of a node: open; closed by our taint; closed, and its opening is requested; its
// opening is ordered and not observed yet.
const (
	Open    Stage = ""
	Closed  Stage = "closed"
	Waiting Stage = "waiting"
	Opening Stage = "opening"
)

// Pod is an unbound pod.
type Pod struct {
	cluster.PodRef
	// Node is its target node; empty: none, or one that has not joined.
	Node string
	// Nominated is the node that the pod is nominated for; empty: none.
	Nominated string
	// Ours reports that the nomination is ours to change; otherwise it is kube-scheduler's,
	// which preempts pods there.
	Ours bool
	// Stands reports that the nomination has been seen on the pod, not only been written.
	Stands bool
	// Given is how often it was nominated for Node, GivenAt when last.
	Given   int
	GivenAt time.Time
	// Priority, Tries (how often kube-scheduler is known to have tried the pod in vain) and
	// TriedAt (when last; without any try, when the pod was first seen) say which pod it tries next.
	Priority int32
	Tries    int
	TriedAt  time.Time
	// Gang names the gang that the pod is of; empty: none, or one of which enough pods are bound.
	Gang string
	// Constraints has the pod's constraints and the labels others select it by; nil: no constraints.
	Constraints *cluster.Constraints
}

// Step is what to do now: first Clear, then Set, then Open. After it, or at Until, or
// when something has changed, Next is called again.
type Step struct {
	// Clear are the pods whose nomination is taken away, Set those nominated for their Node.
	Clear []Pod
	Set   []Pod
	// Open are the nodes that are opened to pods.
	Open []string
	// Until is when to decide again though nothing has changed; zero: never.
	Until time.Time
}

// String returns the step as lines of text.
func (s Step) String() string {
	var b strings.Builder
	for _, p := range s.Clear {
		fmt.Fprintf(&b, "clear the nomination of %s\n", p.PodRef)
	}
	for _, p := range s.Set {
		fmt.Fprintf(&b, "nominate %s for %s\n", p.PodRef, p.Node)
	}
	for _, n := range s.Open {
		fmt.Fprintf(&b, "open %s\n", n)
	}
	if !s.Until.IsZero() {
		fmt.Fprintf(&b, "decide again at %s\n", s.Until.Format("15:04:05.000"))
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
