package nodegroups

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// NodeDrain is what a drain of one node has before it.
type NodeDrain struct {
	Group, Node string
	// Instance is the id of its instance at AWS; empty: it is not of AWS.
	Instance string
	Cordoned bool
	// Pods is how many have to leave.
	Pods int
	// Held are the pods that no drain may end: who has an annotation against it, or no controller that makes
	// the like of it again. Such a node is left as it is.
	Held []string
}

// Drained reports whether nothing is left to do on the node.
func (d *NodeDrain) Drained() bool { return d.Cordoned && d.Pods == 0 }

// Drains returns the nodes of the groups: in the order of the groups, and in each those with the fewest pods first.
func Drains(order []Group, nodes []corev1.Node, pods []corev1.Pod, members Membership, now time.Time) []NodeDrain {
	on := map[string][]*corev1.Pod{}
	for i := range pods {
		on[pods[i].Spec.NodeName] = append(on[pods[i].Spec.NodeName], &pods[i])
	}
	place := map[string]int{}
	for i := range order {
		place[order[i].Name] = i + 1
	}
	var drains []NodeDrain
	for i := range nodes {
		n := &nodes[i]
		group := members.GroupOf(n)
		if place[group] == 0 {
			continue
		}
		d := NodeDrain{Group: group, Node: n.Name, Instance: instanceOf(n), Cordoned: n.Spec.Unschedulable}
		for _, p := range on[n.Name] {
			if !leaves(p) {
				continue
			}
			d.Pods++
			if why := keeps(p, now); why != "" {
				d.Held = append(d.Held, p.Namespace+"/"+p.Name+": "+why)
			}
		}
		slices.Sort(d.Held)
		drains = append(drains, d)
	}
	slices.SortFunc(drains, func(a, b NodeDrain) int {
		return cmp.Or(cmp.Compare(place[a.Group], place[b.Group]), cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Node, b.Node))
	})
	return drains
}

// instanceOf returns the id of a Node's instance at AWS; empty: it has none.
func instanceOf(n *corev1.Node) string {
	if !strings.HasPrefix(n.Spec.ProviderID, "aws:///") {
		return ""
	}
	return n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:]
}

// leaves reports whether a pod has to be gone before its node is drained.
func leaves(p *corev1.Pod) bool {
	return !translate.Terminal(p) && !translate.OwnedByDaemonSet(p) && !translate.Mirror(p)
}

// keeps says why a pod must not be evicted; empty: it may be.
func keeps(p *corev1.Pod, now time.Time) string {
	switch annotation := (translate.AutoscalerRules{}).BlocksDisruption(p, now); {
	case translate.Terminating(p):
		return ""
	case annotation != "":
		return "annotation " + annotation
	case metav1.GetControllerOf(p) == nil:
		return "no controller makes it again"
	default:
		return ""
	}
}

// State says in words what is to be done on the node.
func (d *NodeDrain) State() string {
	switch {
	case d.Drained():
		return "drained"
	case len(d.Held) > 0:
		return fmt.Sprintf("kept by %d pods", len(d.Held))
	case d.Cordoned:
		return "cordoned"
	default:
		return "to drain"
	}
}
