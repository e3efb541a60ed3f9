package apply_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

func TestRegisterNodeSyncsTaints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		labels map[string]string
		has    []corev1.Taint
		want   []corev1.Taint
	}{
		"the claim's are added, the unregistered one goes": {
			has: []corev1.Taint{karpenterv1.UnregisteredTaint()},
			want: []corev1.Taint{
				{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule},
				{Key: "cni", Effect: corev1.TaintEffectNoExecute},
			},
		},
		"one that the node has keeps its value": {
			has: []corev1.Taint{{Key: "dedicated", Value: "b", Effect: corev1.TaintEffectNoSchedule}},
			want: []corev1.Taint{
				{Key: "dedicated", Value: "b", Effect: corev1.TaintEffectNoSchedule},
				{Key: "cni", Effect: corev1.TaintEffectNoExecute},
			},
		},
		"a node that says so keeps its own": {
			labels: map[string]string{karpenterv1.NodeDoNotSyncTaintsLabelKey: "true"},
			has:    []corev1.Taint{karpenterv1.UnregisteredTaint(), {Key: "own", Effect: corev1.TaintEffectNoSchedule}},
			want:   []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{Spec: corev1.NodeSpec{Taints: tt.has}}
			node.Name, node.Labels = "n1", tt.labels
			c := fake.NewClientBuilder().WithObjects(node).Build()
			claim := &karpenterv1.NodeClaim{}
			claim.Name, claim.UID = "c1", "uid"
			claim.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
			claim.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}
			if err := apply.RegisterNode(t.Context(), c, node, claim); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAdoptedNodeEvictsNobody has the Nominator's share of a registration: the Node stays closed to new
// pods, but kube-controller-manager must not evict those that come as it opens.
func TestAnAdoptedNodeEvictsNobody(t *testing.T) {
	t.Parallel()
	own, last := corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: "last", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		own, karpenterv1.UnregisteredTaint(), {Key: karpenterv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}, last,
	}}}
	node.Name = "n1"
	c := fake.NewClientBuilder().WithObjects(node).Build()
	claim := &karpenterv1.NodeClaim{}
	claim.Name, claim.UID = "c1", "uid"
	closed := []corev1.Taint{own, {Key: karpenterv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}, last}
	for _, step := range []struct {
		do   func(context.Context, client.Client, *corev1.Node, *karpenterv1.NodeClaim) error
		want []corev1.Taint
	}{
		{apply.AdoptNode, closed},
		{apply.AdoptNode, closed},
		{handBack, []corev1.Taint{own, karpenterv1.UnregisteredTaint(), last}},
		{apply.AdoptNode, closed},
		{apply.RegisterNode, []corev1.Taint{own, last}},
	} {
		if err := step.do(t.Context(), c, node, claim); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, node.Spec.Taints); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
		if !slices.Contains(node.Finalizers, karpenterv1.TerminationFinalizer) {
			t.Errorf("the node has finalizers %v", node.Finalizers)
		}
	}
}

func handBack(ctx context.Context, c client.Client, node *corev1.Node, _ *karpenterv1.NodeClaim) error {
	return apply.HandBackNode(ctx, c, node)
}
