package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestUntaintTakesOurTaintAndNoOther: who goes back to another autoscaler must not be left with a
// taint that nobody removes. The second time there is nothing to do.
func TestUntaintTakesOurTaintAndNoOther(t *testing.T) {
	t.Parallel()
	cluster := testkit.StartCluster(t)
	c := connect(t, cluster)
	other := corev1.Taint{Key: "example.com/other", Effect: corev1.TaintEffectPreferNoSchedule}
	for name, taints := range map[string][]corev1.Taint{
		"tainted": {other, translate.PreferOthersTaint()}, "plain": {other},
		"adopted": {other, {Key: karpenterv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoSchedule}},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
		if err := c.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	const handedBack = "set taint karpenter.sh/unregistered to NoExecute on 1 of 3 nodes\n"
	for _, want := range []string{handedBack + "removed taint dovetail.sh/leaving from 1 of 3 nodes", "removed taint dovetail.sh/leaving from 0 of 3 nodes"} {
		p := start(t, "untaint", "--kubeconfig", cluster.Kubeconfig)
		if status := p.awaitEnd(); status != 0 || !strings.Contains(p.String(), want) || strings.Contains(p.String(), handedBack) != strings.Contains(want, handedBack) {
			t.Fatalf("status %d, want 0 and %q:\n%s", status, want, p)
		}
	}
	for _, name := range []string{"tainted", "plain", "adopted"} {
		var node corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
			t.Fatal(err)
		}
		var ours []string
		found := false
		for _, taint := range node.Spec.Taints {
			found = found || taint.MatchTaint(&other)
			if strings.HasPrefix(taint.Key, "dovetail.sh/") {
				ours = append(ours, taint.Key)
			}
		}
		unregistered := karpenterv1.UnregisteredTaint()
		if is := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&unregistered) }); is != (name == "adopted") {
			t.Errorf("node %s has taints %v", name, node.Spec.Taints)
		}
		if diff := cmp.Diff([]string(nil), ours); diff != "" || !found {
			t.Errorf("node %s: taints of ours (-want +got), the other is there: %t\n%s", name, found, diff)
		}
	}
}
