// Package redact replaces what people chose in decisions and objects, so that they can be given to others: names,
// labels and their values, and texts. What was equal stays equal, and what sorted before something sorts before it
// still, because the core breaks ties by name: the same is decided, up to the names.
//
// It may import the core and decision/record. Read names.go first (what becomes of a name), then decision.go
// (decisions, field by field) and text.go (sentences).
package redact

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// Class is a kind of names: those of a class are equal or not among themselves.
type Class string

// The classes. Nodes and NodeClaims are one, because they are sorted together.
const (
	Namespace Class = "namespace"
	Pod       Class = "pod"
	Node      Class = "node"
	Pool      Class = "pool"
	NodeClass Class = "class"
	Volume    Class = "volume"
	PVC       Class = "pvc"
	PV        Class = "pv"
	Storage   Class = "storage"
	Runtime   Class = "runtime"
	PodGroup  Class = "podgroup"
	Buffer    Class = "buffer"
	Template  Class = "template"
	Handle    Class = "handle"
	Provider  Class = "provider"
	Owner     Class = "owner"
	UID       Class = "uid"
	Daemon    Class = "daemonset"
	PDB       Class = "pdb"
	Command   Class = "command"
	Address   Class = "address"
	Other     Class = "object"

	keys   Class = "key"
	values Class = "value"
	// texts are what people wrote; words are those of sentences that nothing is known of.
	texts Class = "text"
	words Class = "word"
)

// Names knows the names that it met, and what they become. Everything is shown to it twice: before Number it
// gathers names and returns them as they are, and after it returns new ones.
type Names struct {
	met map[Class]map[string]string
	// kept are the label keys that stay: the others keep their place among them.
	kept     map[string]bool
	numbered bool
	// known are all names of all classes, for sentences.
	known map[string]string
	// plain are words of sentences that stay, besides those of this program: instance types, zones.
	plain map[string]bool
}

// New returns Names that has met none.
func New() *Names {
	return &Names{met: map[Class]map[string]string{}, kept: map[string]bool{}, plain: map[string]bool{}}
}

// Name returns what a name of a class becomes; one that was not met before Number: its own, after all others.
func (n *Names) Name(class Class, name string) string {
	if name == "" {
		return ""
	}
	of := n.met[class]
	if of == nil {
		of = map[string]string{}
		n.met[class] = of
	}
	switch _, isKnown := of[name]; {
	case !n.numbered:
		of[name] = ""
		return name
	case !isKnown:
		of[name] = fmt.Sprintf("%s-x%d", class, len(of)+1)
	}
	return of[name]
}

// Is makes a name that was met become another. It is called after Number.
func (n *Names) Is(class Class, name, becomes string) { n.met[class][name] = becomes }

// Number gives each name that was met its new one, in the same order.
func (n *Names) Number() {
	for class, of := range n.met {
		if class == keys {
			continue
		}
		sorted := slices.Sorted(maps.Keys(of))
		for i, name := range sorted {
			of[name] = fmt.Sprintf("%s-%0*d", class, width(sorted), i+1)
		}
	}
	n.numberKeys()
	n.numbered = true
	n.known = map[string]string{}
	for _, class := range slices.Sorted(maps.Keys(n.met)) {
		maps.Copy(n.known, n.met[class])
	}
	for _, class := range []Class{keys, PodGroup, Daemon, Buffer, Namespace, Pool, Pod, Node} { // the last one wins
		maps.Copy(n.known, n.met[class])
	}
}

func width(sorted []string) int { return len(strconv.Itoa(len(sorted))) }

// numberKeys gives label keys new ones that have the same place among those that stay.
func (n *Names) numberKeys() {
	own := slices.Sorted(maps.Keys(n.met[keys]))
	stay := slices.Sorted(maps.Keys(n.kept))
	for i, key := range own {
		at, _ := slices.BinarySearch(stay, key)
		before, after := "", ""
		if at > 0 {
			before = stay[at-1]
		}
		if at < len(stay) {
			after = stay[at]
		}
		n.met[keys][key] = between(before, after, fmt.Sprintf("key-%0*d", width(own), i+1))
	}
}

// between returns a key with the name given that sorts between two others, of which either may be missing.
func between(before, after, name string) string {
	fits := func(s string) bool { return s > before && (after == "" || s < after) }
	if fits(name) {
		return name
	}
	for first := 'a'; first <= 'z'; first++ {
		if s := string(first) + "-" + name; fits(s) {
			return s
		}
		for second := 'a'; second <= 'z'; second++ {
			if s := string(first) + string(second) + "-" + name; fits(s) {
				return s
			}
		}
	}
	return before + "-" + name // few keys are between the two: it is among them
}

// Key returns what a label key becomes: those of Kubernetes and its autoscalers stay.
func (n *Names) Key(key string) string {
	if key == "" {
		return ""
	}
	domain, _, ok := strings.Cut(key, "/")
	if ok && isStandard(domain) {
		n.kept[key] = true
		return key
	}
	return n.Name(keys, key)
}

func isStandard(domain string) bool {
	return strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io") || strings.HasPrefix(domain, "karpenter.") ||
		strings.HasPrefix(domain, "topology.") || domain == "dovetail.sh"
}

// Value returns what the value of a label becomes: numbers stay, and what says where and what a node is.
func (n *Names) Value(key, value string) string {
	domain, rest, _ := strings.Cut(key, "/")
	_, err := strconv.ParseInt(value, 10, 64)
	switch {
	case key == label.Hostname:
		return n.Name(Node, value)
	case key == label.NodePool:
		return n.Name(Pool, value)
	case key == "kubernetes.io/metadata.name":
		return n.Name(Namespace, value)
	case strings.HasSuffix(rest, "nodeclass"):
		return n.Name(NodeClass, value)
	case err == nil, key == "kubernetes.io/arch", key == "kubernetes.io/os":
		return value
	case strings.HasPrefix(domain, "topology."), strings.HasPrefix(domain, "karpenter."), domain == "node.kubernetes.io", strings.HasPrefix(domain, "failure-domain."):
		return value
	}
	return n.Name(values, value)
}

// Labels returns labels with their new keys and values.
func (n *Names) Labels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	out := make(map[string]string, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out[n.Key(key)] = n.Value(key, labels[key])
	}
	return out
}
