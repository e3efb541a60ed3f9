package mirror

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// beatingNode is a Node whose kubelet has reported so many minutes ago.
func beatingNode(version string, minutes int) *corev1.Node {
	n := testNode("n", "kwok://n", true)
	n.ResourceVersion = version
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute))}}
	return n
}

func TestIsHeartbeat(t *testing.T) {
	t.Parallel()
	before := beatingNode("1", 5)
	for name, c := range map[string]struct {
		change func(n *corev1.Node)
		want   bool
	}{
		"only the time of the report":   {func(*corev1.Node) {}, true},
		"other field managers":          {func(n *corev1.Node) { n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}} }, true},
		"the same state, by a resync":   {func(n *corev1.Node) { n.ResourceVersion = before.ResourceVersion }, false},
		"another status of a condition": {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"another condition":             {func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{}) }, false},
		"a taint":                       {func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "a"}) }, false},
		"a label":                       {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"an allocatable amount that fell": {func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
		}, false},
		"a deletion timestamp": {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
	} {
		after := beatingNode("2", 0)
		c.change(after)
		if got := isHeartbeat(before, after); got != c.want {
			t.Errorf("%s: isHeartbeat is %t", name, got)
		}
	}
	if isHeartbeat(&corev1.Pod{}, &corev1.Pod{}) {
		t.Error("pods have no heartbeat")
	}
}

func TestAHeartbeatLeavesWhatWasDerived(t *testing.T) {
	t.Parallel()
	s := newTestStore(func() time.Time { return noon })
	if err := s.Observe(beatingNode("1", 5), testClaim("c", "kwok://n")); err != nil {
		t.Fatal(err)
	}
	s.Snapshot()
	later := beatingNode("2", 0)
	s.nodes.heartbeat(later)
	known := s.nodes.nodes["n"]
	if known.object != later || known.fromNode != later {
		t.Error("the mirror keeps the state from before")
	}
	if s.nodes.get("n").ResourceVersion != "2" {
		t.Error("writes would be made against an old version")
	}
	s.nodes.heartbeat(testNode("unknown", "kwok://unknown", true)) // it may be gone already
}
