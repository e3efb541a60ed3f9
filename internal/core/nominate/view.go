package nominate

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// View is what a look depends on. Nodes and Pods are sorted by name.
type View struct {
	At time.Time
	// Nodes are those that ask to be opened, and those that pods of the view are meant for.
	Nodes []Node
	// Pods are those that no node has yet and that are meant for a node or carry a hint
	// of ours.
	Pods []Pod
	// Coming is how many pods are meant for nodes that have not joined.
	Coming int
	// Heard is when something was last heard of one of the pods: kube-scheduler writes why
	// whenever it has tried one in vain.
	Heard time.Time
	// WaitMost is how long a node that is ready waits for its turn at most.
	WaitMost time.Duration
}

// Node is a node that has joined.
type Node struct {
	Name  string
	Stage Stage
	// Asked is when it asked to be opened; zero if it did not.
	Asked time.Time
	// Spare: beside those meant for it, it could hold a pod that is meant for another.
	Spare bool
	// ReadyAt is since when nothing but our word keeps pods from it; zero: something does.
	ReadyAt time.Time
}

// Stage is how far a node is open to pods.
type Stage string

// The stages of a node: open, closed by our taint, closed and asking to be opened, told to
// open and not seen to be open yet.
const (
	Open    Stage = ""
	Closed  Stage = "closed"
	Waiting Stage = "waiting"
	Opening Stage = "opening"
)

// Pod is a pod that is to be bound.
type Pod struct {
	cluster.PodRef
	// Node is the one it is meant for; empty: none, or one that has not joined.
	Node string
	// Hint is the node that it is nominated for; empty: none.
	Hint string
	// Ours tells that the hint is ours to change; otherwise it is kube-scheduler's, which
	// makes room there.
	Ours bool
	// Stands tells that the hint has been seen on the pod, not only been written.
	Stands bool
	// Given is how often it was hinted to Node, GivenAt when last.
	Given   int
	GivenAt time.Time
	// Priority, how often kube-scheduler is known to have tried it in vain, and when last:
	// they say which pod it tries next.
	Priority int32
	Tries    int
	TriedAt  time.Time
	// Shape has the pod's rules and what others select it by; nil: it has no rules.
	Shape *cluster.Shape
}

// Step is what to do now: first Clear, then Set, then Open. After it, or at Until, or
// when something has changed, a new look is taken.
type Step struct {
	Clear []Pod
	Set   []Pod
	// Open are the nodes whose turn has come.
	Open []string
	// Until is when to look again though nothing has changed; zero: never.
	Until time.Time
}

// String returns the step as lines of text.
func (s Step) String() string {
	var b strings.Builder
	for _, p := range s.Clear {
		fmt.Fprintf(&b, "clear %s\n", p.PodRef)
	}
	for _, p := range s.Set {
		fmt.Fprintf(&b, "hint %s to %s\n", p.PodRef, p.Node)
	}
	for _, n := range s.Open {
		fmt.Fprintf(&b, "open %s\n", n)
	}
	if !s.Until.IsZero() {
		fmt.Fprintf(&b, "look again at %s\n", s.Until.Format("15:04:05.000"))
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
