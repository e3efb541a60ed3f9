package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

// TestNodeVersionCountsWhatPoolsCount: a pool need not be counted anew for what it does not count.
func TestNodeVersionCountsWhatPoolsCount(t *testing.T) {
	t.Parallel()
	node := func(change func(*corev1.Node)) func(*Store) {
		return func(s *Store) {
			n := testNode("n", "kwok://n", true)
			change(n)
			upsert(s, n)
		}
	}
	claim := func(change func(*karpenterv1.NodeClaim)) func(*Store) {
		return func(s *Store) {
			nc := testClaim("c", "kwok://n")
			change(nc)
			upsert(s, nc)
		}
	}
	cpu := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	for name, c := range map[string]struct {
		does     func(*Store)
		observed bool
	}{
		"a Node is sent again": {node(func(*corev1.Node) {}), false},
		"its taints change":    {node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} }), false},
		"its conditions change": {node(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}), false},
		"it has another label":     {node(func(n *corev1.Node) { n.Labels["team"] = "blue" }), false},
		"its capacity changes":     {node(func(n *corev1.Node) { n.Status.Capacity = cpu(77) }), true},
		"its pool changes":         {node(func(n *corev1.Node) { n.Labels[karpenterv1.NodePoolLabelKey] = "other" }), true},
		"it has another instance":  {node(func(n *corev1.Node) { n.Spec.ProviderID = "kwok://m" }), true},
		"it is deleted":            {node(func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }), true},
		"it goes":                  {func(s *Store) { remove(s, testNode("n", "kwok://n", true)) }, true},
		"a claim is sent again":    {claim(func(*karpenterv1.NodeClaim) {}), false},
		"its annotations change":   {claim(func(nc *karpenterv1.NodeClaim) { nc.Annotations = map[string]string{"a": "b"} }), false},
		"what it has changes":      {claim(func(nc *karpenterv1.NodeClaim) { nc.Status.Capacity = cpu(77) }), true},
		"it has lost its instance": {claim(func(nc *karpenterv1.NodeClaim) { nc.Status.ProviderID = "" }), true},
		"its price changes":        {claim(func(nc *karpenterv1.NodeClaim) { nc.Labels = map[string]string{"topology.kubernetes.io/zone": "z"} }), true},
		"a claim is deleted":       {claim(func(nc *karpenterv1.NodeClaim) { nc.DeletionTimestamp = &metav1.Time{Time: noon} }), true},
		"a claim goes":             {func(s *Store) { remove(s, testClaim("c", "kwok://n")) }, true},
		"another claim comes":      {func(s *Store) { upsert(s, testClaim("d", "")) }, true},
		"what we made is seen":     {func(s *Store) { upsert(s, testClaim("made", "")) }, true},
		"its instance ends (claim)": {claim(func(nc *karpenterv1.NodeClaim) {
			condition.ForNodeClaim(nc).SetTrue(karpenterv1.ConditionTypeInstanceTerminating, noon)
		}), true},
	} {
		s := newTestStore(atNoon)
		upsert(s, testNode("n", "kwok://n", true))
		upsert(s, testClaim("c", "kwok://n"))
		s.AssumeClaim(testClaim("made", ""))
		before, others := s.NodeVersion("general"), s.NodeVersion("other")
		c.does(s)
		if observed := s.NodeVersion("general") != before; observed != c.observed {
			t.Errorf("%s: its pool is to be counted %v, want %v", name, observed, c.observed)
		}
		if observed := s.NodeVersion("other") != others; observed != (name == "its pool changes") {
			t.Errorf("%s: another pool is to be counted: %v", name, observed)
		}
	}
}
