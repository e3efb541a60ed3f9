package translate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

func TestConsolidationPoliciesHaveOneNameEach(t *testing.T) {
	t.Parallel()
	for api, want := range map[karpenterv1.ConsolidationPolicy]string{
		"":                         "",
		"WhenEmpty":                cluster.PolicyEmpty,
		"WhenEmptyOrUnderutilized": cluster.PolicyUnderutilized,
		"WhenUnderutilized":        cluster.PolicyUnderutilized,
		"Balanced":                 cluster.PolicyBalanced,
	} {
		np := testPool()
		np.Spec.Disruption.ConsolidationPolicy = api
		if got := Pool(np, nil, time.Time{}).Policy; got != want {
			t.Errorf("policy %q is read as %q, want %q", api, got, want)
		}
	}
}

func testPool() *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{}}}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "g", Kind: "K", Name: "n"}
	return np
}

func TestAPoolsTermsOfConsolidation(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		want float64
		why  []string
	}{
		"0.05":     {want: 0.05},
		"0":        {why: []string{`annotation dovetail.sh/saving-share-min is "0" and not used: it must be a number above 0`}},
		"-1":       {why: []string{`annotation dovetail.sh/saving-share-min is "-1" and not used: it must be a number above 0`}},
		"5%":       {why: []string{`annotation dovetail.sh/saving-share-min is "5%" and not used: it must be a number above 0`}},
		"Infinity": {why: []string{`annotation dovetail.sh/saving-share-min is "Infinity" and not used: it must be a number above 0`}},
		"NaN":      {why: []string{`annotation dovetail.sh/saving-share-min is "NaN" and not used: it must be a number above 0`}},
	} {
		np := testPool()
		np.Annotations[SavingShareMinAnnotationKey] = text
		p := Pool(np, nil, time.Time{})
		if p.SavingShareMin != c.want || p.EvictionHourly != 0 {
			t.Errorf("%s is read as %g, and an eviction as %g; want %g and 0", text, p.SavingShareMin, p.EvictionHourly, c.want)
		}
		if diff := cmp.Diff(c.why, UnreadAnnotations(np)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestTheSoftTaintIsForKubeSchedulerAlone: it has kube-scheduler prefer other nodes, and
// keeps no pod from being planned for this one.
func TestTheSoftTaintIsForKubeSchedulerAlone(t *testing.T) {
	t.Parallel()
	other := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{PreferOthersTaint(), other}}}
	m := Node(node, nil, time.Time{})
	if diff := cmp.Diff(Taints([]corev1.Taint{other}), m.Taints); !m.SoftTaint || diff != "" {
		t.Errorf("soft taint %t, other taints (-want +got):\n%s", m.SoftTaint, diff)
	}
	if len(node.Spec.Taints) != 2 {
		t.Errorf("the Node itself has changed: %v", node.Spec.Taints)
	}
}
