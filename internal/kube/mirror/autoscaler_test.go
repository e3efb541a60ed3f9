package mirror

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// TestANodeThatClusterAutoscalerDeletes: from the taint on its pods need another node, which wakes the
// provisioner; without the taint they don't.
func TestANodeThatClusterAutoscalerDeletes(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	node := testNode("group-1", "", true)
	node.Labels = nil
	upsert(s, node)
	upsert(s, boundPod("web", "group-1"))
	var woken []string
	s.OnWork(func(id string) { woken = append(woken, id) })
	if snap := s.Snapshot(); len(snap.Pending) != 0 || snap.Nodes[0].Deleting || s.IsDraining() {
		t.Fatalf("before: %+v", snap)
	}
	going := node.DeepCopy()
	going.Spec.Taints = []corev1.Taint{{Key: translate.ToBeDeletedTaintKey, Value: "1764072000", Effect: corev1.TaintEffectNoSchedule}}
	upsert(s, going)
	upsert(s, going.DeepCopy())
	if snap := s.Snapshot(); len(snap.Pending) != 1 || !snap.Pending[0].Running || !snap.Nodes[0].Deleting || !s.IsDraining() {
		t.Errorf("with the taint: %+v", snap)
	}
	if !slices.Equal(woken, []string{"node/group-1"}) {
		t.Errorf("woke the provisioner for %q", woken)
	}
	upsert(s, node.DeepCopy())
	if snap := s.Snapshot(); len(snap.Pending) != 0 || snap.Nodes[0].Deleting {
		t.Errorf("after it was taken back: %+v", snap)
	}
}

// TestScaleDownDisabled: the annotation on a Node keeps it, unless it is set that it doesn't.
func TestScaleDownDisabled(t *testing.T) {
	t.Parallel()
	for ignore, want := range map[bool]string{false: "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled on the node", true: ""} {
		s := NewStore(Options{Now: atNoon, Manages: func(string, string) bool { return true }, Autoscaler: translate.AutoscalerRules{IgnoreAnnotations: ignore}})
		upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{translate.ScaleDownDisabledAnnotationKey: "true"}}})
		p := boundPod("db", "n1")
		upsert(s, p)
		if got := s.Snapshot().Nodes[0].DoNotDisrupt; got != want {
			t.Errorf("ignored %v: %q, want %q", ignore, got, want)
		}
	}
}

// TestUnreadDelays: each value that cannot be read is reported once.
func TestUnreadDelays(t *testing.T) {
	t.Parallel()
	var reported []string
	s := newTestStore(atNoon)
	s.opts.Unread = func(_ *corev1.Pod, why string) { reported = append(reported, why) }
	p := pendingPod("late")
	p.Annotations = map[string]string{translate.ScaleUpDelayAnnotationKey: "soon", corev1.PodDeletionCost: "much"}
	upsert(s, p)
	upsert(s, p.DeepCopy())
	if len(reported) != 2 || reported[0] == reported[1] {
		t.Errorf("reported %q, want each once", reported)
	}
}

// TestAPendingPodThatMayNotBeEvicted: what its annotations will say once it runs is known before.
func TestAPendingPodThatMayNotBeEvicted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"karpenter.sh/do-not-disrupt=true": true, "karpenter.sh/do-not-disrupt=1h": true, "karpenter.sh/do-not-disrupt=false": false, "karpenter.sh/do-not-disrupt=soon": false,
		"karpenter.sh/do-not-evict=true": true, "cluster-autoscaler.kubernetes.io/safe-to-evict=false": true, "cluster-autoscaler.kubernetes.io/safe-to-evict=true": false, "a=b": false,
	} {
		s := newTestStore(atNoon)
		p := pendingPod("db")
		key, value, _ := strings.Cut(name, "=")
		p.Annotations = map[string]string{key: value}
		upsert(s, p)
		if got := s.Snapshot().Pending[0].DoNotDisrupt; got != want {
			t.Errorf("with %s: %v, want %v", name, got, want)
		}
	}
}
