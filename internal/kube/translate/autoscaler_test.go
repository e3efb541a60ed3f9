package translate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestWhatBlocksDisruption(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	own, ignoring := translate.AutoscalerRules{}, translate.AutoscalerRules{IgnoreAnnotations: true}
	pod := func(key, value string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	ownedBy := func(apiVersion, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind}}
		}
	}
	const blocks = translate.SafeToEvictAnnotationKey + "=false"
	for name, c := range map[string]struct {
		rules translate.AutoscalerRules
		pod   *corev1.Pod
		want  string
	}{
		"safe-to-evict false":                 {own, pod(translate.SafeToEvictAnnotationKey, "false"), blocks},
		"safe-to-evict true says nothing":     {own, pod(translate.SafeToEvictAnnotationKey, "true"), ""},
		"safe-to-evict False is no value":     {own, pod(translate.SafeToEvictAnnotationKey, "False"), ""},
		"the setting ignores safe-to-evict":   {ignoring, pod(translate.SafeToEvictAnnotationKey, "false"), ""},
		"the setting leaves do-not-disrupt":   {ignoring, pod(karpenterv1.DoNotDisruptAnnotationKey, "true"), karpenterv1.DoNotDisruptAnnotationKey},
		"a pod that has ended blocks nothing": {own, pod(translate.SafeToEvictAnnotationKey, "false", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ""},
		"a DaemonSet's pod goes with a node":  {own, pod(translate.SafeToEvictAnnotationKey, "false", ownedBy("apps/v1", "DaemonSet")), ""},
		"a static pod goes with its node":     {own, pod(translate.SafeToEvictAnnotationKey, "false", ownedBy("v1", "Node")), ""},
	} {
		if got := c.rules.BlocksDisruption(c.pod, now); got != c.want {
			t.Errorf("%s: BlocksDisruption() = %q, want %q", name, got, c.want)
		}
	}
	// A drain that has begun does not wait for a pod that is only not safe to evict.
	if p := pod(translate.SafeToEvictAnnotationKey, "false"); !translate.Evictable(p, now) {
		t.Error("a pod with safe-to-evict=false cannot be evicted by a drain")
	}
}

func TestWhoIsExcluded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	cutoff := int32(-10)
	ref := cluster.PodRef{Name: "p"}
	for name, c := range map[string]struct {
		rules    translate.AutoscalerRules
		delay    string
		age      time.Duration
		priority int32
		want     cluster.ExcludedPod
		unread   bool
	}{
		"an ordinary pod":                         {age: time.Second},
		"one that waits":                          {delay: "90s", age: 89 * time.Second, want: cluster.ExcludedPod{PodRef: ref, Delay: 90 * time.Second}},
		"one that has waited":                     {delay: "90s", age: 90 * time.Second},
		"the setting ignores the delay":           {rules: translate.AutoscalerRules{IgnoreAnnotations: true}, delay: "90s"},
		"a number is no duration":                 {delay: "90", unread: true},
		"a delay below zero":                      {delay: "-1s", unread: true},
		"a priority below the cutoff":             {rules: translate.AutoscalerRules{Cutoff: &cutoff}, priority: -11, want: cluster.ExcludedPod{PodRef: ref, Cutoff: cutoff, Priority: -11}},
		"a priority at the cutoff":                {rules: translate.AutoscalerRules{Cutoff: &cutoff}, priority: -10},
		"without a cutoff no priority is too low": {priority: -1 << 31},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(now.Add(-c.age))}, Spec: corev1.PodSpec{Priority: &c.priority}}
		if c.delay != "" {
			p.Annotations = map[string]string{translate.ScaleUpDelayAnnotationKey: c.delay}
		}
		got, is := c.rules.Excluded(p, now)
		if diff := cmp.Diff(c.want, got); diff != "" || is != (c.want != cluster.ExcludedPod{}) {
			t.Errorf("%s: Excluded() = %v (-want +got):\n%s", name, is, diff)
		}
		if _, unread := c.rules.ScaleUpDelay(p); (unread != "") != c.unread {
			t.Errorf("%s: ScaleUpDelay() says %q", name, unread)
		}
	}
}

// TestStartupTaintsOfClusterAutoscaler: a taint with its prefix keeps no pod from being planned for a
// node that starts, and keeps the node from being initialized.
func TestStartupTaintsOfClusterAutoscaler(t *testing.T) {
	t.Parallel()
	taint := corev1.Taint{Key: "startup-taint.cluster-autoscaler.kubernetes.io/gpu-driver", Effect: corev1.TaintEffectNoSchedule}
	nc := &karpenterv1.NodeClaim{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpenterv1.NodeRegisteredLabelKey: "true"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
	if got := translate.Node(node, nc, time.Time{}).Taints; len(got) > 0 {
		t.Errorf("a node that starts has taints %v", got)
	}
	if got := translate.LifecycleNode(node).Ephemeral; len(got) != 1 {
		t.Errorf("its initialization waits for %v, want the taint", got)
	}
	node.Labels[karpenterv1.NodeInitializedLabelKey] = "true"
	if got := translate.Node(node, nc, time.Time{}).Taints; len(got) != 1 {
		t.Errorf("a node that has started has taints %v, want the one", got)
	}
}
