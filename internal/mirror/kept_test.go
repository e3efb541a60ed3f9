package mirror

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// TestWhatIsKeptIsWhatThereIs: a snapshot that is made of what the last one found out is the
// same as one that is made from nothing, whatever happens between the two.
func TestWhatIsKeptIsWhatThereIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		s := newTestStore(func() time.Time { return now })
		ops := map[string]func(*rapid.T){
			"pod":         func(t *rapid.T) { s.upsertPod(anyPod(t)) },
			"pod gone":    func(t *rapid.T) { s.removePod(anyPod(t)) },
			"node":        func(t *rapid.T) { s.upsertNode(anyNode(t)) },
			"node gone":   func(t *rapid.T) { s.removeNode(anyNode(t)) },
			"claim":       func(t *rapid.T) { s.upsertClaim(anyClaim(t)) },
			"claim gone":  func(t *rapid.T) { s.removeClaim(anyClaim(t)) },
			"budget":      func(t *rapid.T) { s.upsertPDB(anyBudget(t)) },
			"budget gone": func(t *rapid.T) { s.removePDB(anyBudget(t)) },
			"time":        func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute) },
			"": func(t *rapid.T) {
				got := s.Snapshot()
				clear(s.kept)
				if diff := cmp.Diff(s.Snapshot(), got, cmp.AllowUnexported(cluster.Snapshot{})); diff != "" {
					t.Fatalf("from nothing (-) and from what was kept (+):\n%s", diff)
				}
				s.Snapshot() // and keep it again
			},
		}
		t.Repeat(ops)
	})
}

func oneOf[T any](t *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(t, name) }

func annotated(t *rapid.T) map[string]string {
	if v := oneOf(t, "annotation", "", "", "", "true", "30m"); v != "" {
		return map[string]string{karpenterv1.DoNotDisruptAnnotationKey: v}
	}
	return nil
}

func deleted(t *rapid.T) *metav1.Time {
	if oneOf(t, "deleted", false, false, false, true) {
		return &metav1.Time{Time: noon}
	}
	return nil
}

func anyPod(t *rapid.T) *corev1.Pod {
	p := boundPod(fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod")), oneOf(t, "on", "n0", "n1", "n2"))
	p.Labels = map[string]string{"app": oneOf(t, "app", "a", "b")}
	p.Annotations, p.DeletionTimestamp = annotated(t), deleted(t)
	p.Status.StartTime = &metav1.Time{Time: noon}
	p.Status.Phase = oneOf(t, "phase", corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: oneOf(t, "ready", corev1.ConditionTrue, corev1.ConditionFalse)}}
	if oneOf(t, "daemon", false, false, true) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d"}}
	}
	return p
}

func anyNode(t *rapid.T) *corev1.Node {
	i := rapid.IntRange(0, 2).Draw(t, "node")
	n := testNode(fmt.Sprint("n", i), fmt.Sprint("kwok://n", i), oneOf(t, "registered", true, true, false))
	n.Annotations, n.DeletionTimestamp = annotated(t), deleted(t)
	return n
}

func anyClaim(t *rapid.T) *karpenterv1.NodeClaim {
	i := rapid.IntRange(0, 2).Draw(t, "claim")
	nc := testClaim(fmt.Sprint("c", i), oneOf(t, "provider", "", fmt.Sprint("kwok://n", i)))
	nc.Annotations, nc.DeletionTimestamp = annotated(t), deleted(t)
	return nc
}

func anyBudget(t *rapid.T) *policyv1.PodDisruptionBudget {
	always := policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: oneOf(t, "budget", "x", "y"), UID: types.UID(oneOf(t, "uid", "1", "2"))},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, UnhealthyPodEvictionPolicy: &always,
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(rapid.IntRange(0, 2).Draw(t, "allowed"))},
	}
}
