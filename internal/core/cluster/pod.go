package cluster

import (
	"cmp"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// PodRef names one pod for good: a later pod of the same name has another UID.
type PodRef struct {
	Namespace, Name, UID string
}

// String returns namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// Compare orders pods by namespace and name.
func (r PodRef) Compare(o PodRef) int {
	return cmp.Or(strings.Compare(r.Namespace, o.Namespace), strings.Compare(r.Name, o.Name), strings.Compare(r.UID, o.UID))
}

// ExcludedPod is a pod that needs a node, and for which nothing is launched now.
type ExcludedPod struct {
	PodRef
	// Delay is for how long after its creation it asks for nothing, which is not over; 0: its
	// Priority is below Cutoff.
	Delay            time.Duration
	Priority, Cutoff int32
}

// Pod is one pending pod.
type Pod struct {
	PodRef
	Created time.Time
	// Planned is the claim or node that an earlier plan chose for the pod; empty: none.
	Planned string
	// Running: the pod still runs, on a node that is going. Until it is evicted it counts there to kube-scheduler.
	Running bool
	// On is the name of the node where it still runs; empty: it does not, or the node is not known.
	On string
	// Refused: kube-scheduler did not bind it to the node of an earlier plan.
	Refused bool
	// DoNotDisrupt: the pod may not be evicted by our choice once it runs.
	DoNotDisrupt bool
	// Gang is the name of the pod's gang in its namespace, whether that is known or not; empty:
	// it is of none.
	Gang string
	// Buffer is the namespace/name of the capacity buffer that the pod is a chunk of; empty: the
	// pod exists.
	Buffer string
	// Constraints is shared by all pods that are alike to the scheduler.
	Constraints *Constraints
}

// Constraints is everything that decides where a pod can go. Pods of one workload share one.
type Constraints struct {
	Requests quantity.List
	// Terms are the alternatives of nodeSelector and required node affinity, in the order
	// of the manifest: each is the whole of what the node's labels must satisfy. There is
	// at least one; a pod without rules has one empty term.
	Terms []label.Requirements
	// OwnTerms are Terms without what volumes add to them; nil: they add nothing.
	OwnTerms    []label.Requirements
	Tolerations []Toleration
	Ports       []HostPort
	// Namespace and Labels are what other pods' rules select it by.
	Namespace string
	Labels    map[string]string
	Rules
	// Preferences are the pod's preferences, in the order in which they are given up.
	Preferences []Preference
	// Invalid says why no node of ours can ever be right for the pod; empty: one may be.
	Invalid string
}

// HostPort is a port that a pod takes on its node.
type HostPort struct {
	IP       string // empty: every address
	Protocol string
	Port     int32
}

// Conflicts reports whether two host ports cannot be on one node. To kube-scheduler "::" is
// an address like others.
func (p HostPort) Conflicts(o HostPort) bool {
	wildcard := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || wildcard(p.IP) || wildcard(o.IP))
}

// Toleration lets a pod onto tainted nodes. Empty Key with Exists matches every key;
// empty Effect matches every effect. Operator is "Exists" or "Equal" (or empty, Equal).
type Toleration struct {
	Key, Operator, Value, Effect string
}

// String returns key=value:effect.
func (t Toleration) String() string {
	return strings.TrimSuffix(t.Key+t.Operator+t.Value+":"+t.Effect, ":")
}

// PodCount is how many pods with the same constraints a node has.
type PodCount struct {
	Constraints *Constraints
	// Count is all of them, Deleting those of them that are being deleted.
	Count, Deleting int32
}
