package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kinds of what can be asked about.
const (
	KindPod    = "pod"
	KindNode   = "node"
	KindClaim  = "nodeclaim"
	KindPool   = "nodepool"
	KindBuffer = "capacitybuffer"
	KindType   = "instancetype"
)

// Subject is what is asked about. Kind is one of the above, a workload's (IsWorkload), or empty: pods,
// nodes, NodeClaims and CapacityBuffers of the name. Namespace is of what has one; empty: any.
type Subject struct {
	Kind, Namespace, Name string
}

// kinds are the kinds of subjects by what people call them.
//
//nolint:gochecknoglobals // a constant
var kinds = map[string]string{
	"pod": KindPod, "pods": KindPod, "po": KindPod, "node": KindNode, "nodes": KindNode, "no": KindNode,
	"nodeclaim": KindClaim, "nodeclaims": KindClaim, "claim": KindClaim,
	"nodepool": KindPool, "nodepools": KindPool, "pool": KindPool,
	"capacitybuffer": KindBuffer, "capacitybuffers": KindBuffer, "buffer": KindBuffer,
	"instancetype": KindType, "type": KindType,
	"deployment": "deployment", "deployments": "deployment", "deploy": "deployment", "replicaset": "replicaset", "replicasets": "replicaset", "rs": "replicaset",
	"statefulset": "statefulset", "statefulsets": "statefulset", "sts": "statefulset", "daemonset": "daemonset", "daemonsets": "daemonset", "ds": "daemonset",
	"job": "job", "jobs": "job", "replicationcontroller": "replicationcontroller", "rc": "replicationcontroller",
}

// IsWorkload reports whether a kind is one of what makes pods.
func IsWorkload(kind string) bool { return slices.Contains(workloads, kind) }

//nolint:gochecknoglobals // a constant
var workloads = []string{"deployment", "replicaset", "statefulset", "daemonset", "job", "replicationcontroller"}

// hasNamespace reports whether what is of the kind is in a namespace.
func hasNamespace(kind string) bool { return kind == KindPod || kind == KindBuffer || IsWorkload(kind) }

// ParseSubject reads what a person asks about, in one or two words: NAME, NAMESPACE/NAME of a pod,
// or a kind before either, as KIND NAME or KIND/NAME.
func ParseSubject(words ...string) (Subject, error) {
	text := strings.Join(words, "/")
	parts := strings.Split(text, "/")
	kind := ""
	if known := kinds[strings.ToLower(parts[0])]; len(parts) > 1 && known != "" {
		kind, parts = known, parts[1:]
	} else if len(words) > 1 {
		return Subject{}, fmt.Errorf("%q is no kind that can be asked about: pod, node, nodeclaim, nodepool, capacitybuffer, type, deployment, statefulset, daemonset, replicaset or job", words[0])
	}
	if slices.Contains(parts, "") || len(parts) > 2 || len(parts) == 2 && kind != "" && !hasNamespace(kind) {
		return Subject{}, fmt.Errorf("%q names nothing: give NAME, NAMESPACE/NAME, KIND NAME or KIND/NAME; the kinds are pod, node, nodeclaim, nodepool, capacitybuffer, type, deployment, statefulset, daemonset, replicaset and job", text)
	}
	if len(parts) == 2 {
		return Subject{cmp.Or(kind, KindPod), parts[0], parts[1]}, nil
	}
	return Subject{Kind: kind, Name: parts[0]}, nil
}

// String returns the subject as a person writes it.
func (s Subject) String() string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + name
	}
	return strings.TrimPrefix(s.Kind+" "+name, " ")
}
