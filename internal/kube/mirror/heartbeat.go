package mirror

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isHeartbeat reports whether two states of an object are those of one Node that differ in nothing but when its
// kubelet has reported. Kubelets report every five minutes, so with thousands of nodes that happens all the time.
func isHeartbeat(was, is any) bool {
	before, isNode := was.(*corev1.Node)
	after, _ := is.(*corev1.Node)
	if !isNode || after == nil || before.ResourceVersion == after.ResourceVersion || len(before.Status.Conditions) != len(after.Status.Conditions) {
		return false
	}
	a, b := withoutHeartbeat(before), withoutHeartbeat(after)
	return reflect.DeepEqual(&a, &b)
}

// withoutHeartbeat returns a shallow copy of a Node without when its kubelet has reported.
func withoutHeartbeat(n *corev1.Node) corev1.Node {
	c := *n
	c.ResourceVersion, c.ManagedFields = "", nil
	c.Status.Conditions = slices.Clone(n.Status.Conditions)
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return c
}

// heartbeat replaces a Node by a state that says the same. All that was derived from it stays valid.
func (x *nodeIndex) heartbeat(n *corev1.Node) {
	known := x.nodes[n.Name]
	if known == nil || known.object == nil {
		return
	}
	if known.fromNode == known.object {
		known.fromNode = n
	}
	known.object = n
}
