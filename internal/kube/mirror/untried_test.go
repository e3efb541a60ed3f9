package mirror

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// presumingStore is a store that has pods ask because of pods like them.
func presumingStore() *Store {
	s := newTestStore(atNoon)
	s.opts.Owners = true
	return s
}

// untriedPod is a pod of the owner web that kube-scheduler has not tried.
func untriedPod(name string) *corev1.Pod {
	p := comingPod(name, "web")
	p.Status.Conditions = nil
	return p
}

// asking returns the pending pods of a snapshot.
func asking(s *Store) (names []string) {
	snap := s.Snapshot()
	for i := range snap.Pending {
		names = append(names, snap.Pending[i].Name)
	}
	return names
}

// TestPodsAskWithThoseLikeThem has kube-scheduler refuse the pod "refused", before and after a pod that it
// has not tried is seen.
func TestPodsAskWithThoseLikeThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(p *corev1.Pod)
		asks   bool
	}{
		"the same":      {func(*corev1.Pod) {}, true},
		"another owner": {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"no owner":      {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"other requests": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m")}
		}, false},
		"another scheduler": {func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" }, false},
		"another priority":  {func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) }, false},
		"a volume claim": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}}
		}, false},
		"a device claim": {func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, false},
		"a gang":         {func(p *corev1.Pod) { member(p, "gang") }, false},
		"a scheduling gate": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		}, false},
		"being deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, isFirst := range []bool{true, false} {
				s, refused, untried := presumingStore(), comingPod("refused", "web"), untriedPod("untried")
				c.change(untried)
				// What keeps both pods apart from others keeps them from speaking for others, too.
				if name == "a volume claim" || name == "a device claim" || name == "a gang" {
					c.change(refused)
				}
				pods := []*corev1.Pod{untried, refused}
				if isFirst {
					slices.Reverse(pods)
				}
				var woken []string
				s.OnWork(func(id string) { woken = append(woken, id) })
				for _, p := range pods {
					upsert(s, p)
				}
				asks := s.assignments.needsNode(s.pods.all["untried"])
				if asks != c.asks || slices.Contains(woken, "pod/untried") != c.asks {
					t.Errorf("refused first: %v; it asks: %v, and the work is %q; want %v", isFirst, asks, woken, c.asks)
				}
			}
		})
	}
}

// TestWhoAskedKeepsAsking until kube-scheduler has tried the pod, whatever becomes of the one like it.
func TestWhoAskedKeepsAsking(t *testing.T) {
	t.Parallel()
	s := presumingStore()
	refused := comingPod("a", "web")
	upsert(s, refused)
	upsert(s, untriedPod("b"))
	if got := asking(s); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the pods %q ask", got)
	}
	if n := s.ComingCount(); n != 0 {
		t.Errorf("%d pods are known to come besides", n)
	}

	bound := refused.DeepCopy()
	bound.Spec.NodeName, bound.Status.Conditions = "n1", nil
	upsert(s, bound)
	relabeled := untriedPod("b")
	relabeled.Annotations = map[string]string{"team": "x"}
	upsert(s, relabeled)
	upsert(s, untriedPod("c"))
	if got := asking(s); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after the refused pod is bound the pods %q ask; b asked, c comes late", got)
	}
	if n := s.ComingCount(); n != 1 {
		t.Errorf("%d pods are known to come, want c", n)
	}

	tried := relabeled.DeepCopy()
	tried.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	tried.Spec.NodeName = "n1"
	upsert(s, tried)
	remove(s, untriedPod("c"))
	if got := asking(s); len(got) != 0 || len(s.untried.byOwner)+len(s.untried.refused) != 0 {
		t.Errorf("in the end the pods %q ask, and %v is remembered", got, s.untried)
	}
}

// TestNobodyAsksForPodsThatPreempt: kube-scheduler makes room for the refused pod, and will for those like it.
func TestNobodyAsksForPodsThatPreempt(t *testing.T) {
	t.Parallel()
	s := presumingStore()
	upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "full"}})
	preempts := comingPod("a", "web")
	preempts.Status.NominatedNodeName = "full"
	upsert(s, preempts)
	upsert(s, untriedPod("b"))
	if got := asking(s); len(got) != 0 {
		t.Errorf("the pods %q ask", got)
	}
}

// TestUntriedPodsHaveTheirTurn from when they were first seen: nominations have to know whom kube-scheduler
// tries next.
func TestUntriedPodsHaveTheirTurn(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	s.opts.Owners = true
	upsert(s, untriedPod("b"))
	now = now.Add(time.Second)
	upsert(s, comingPod("a", "web"))
	upsert(s, untriedPod("b"))
	claim := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	claim.Status.ProviderID = "id"
	upsert(s, claim)
	upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "id"}})
	s.Assign([]cluster.PodRef{translate.PodRef(untriedPod("b"))}, "c")
	pods := s.Nominations().View().Pods
	if len(pods) != 1 || pods[0].Tries != 0 || !pods[0].TriedAt.Equal(noon) {
		t.Errorf("the planned pods are %+v; want b, which was seen first at noon and never tried", pods)
	}
}

// TestNobodyAsksForOthers when launches wait for the end of the batch window: then kube-scheduler must have
// refused each pod, as Karpenter has it.
func TestNobodyAsksForOthers(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, comingPod("a", "web"))
	upsert(s, untriedPod("b"))
	if got := asking(s); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the pods %q ask", got)
	}
}
