package lifecycle_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

func TestTheLifeOfClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, story := range map[string]func(*testing.T, *world){
		"a claim becomes a node that takes pods, and goes again":        lives,
		"pods leave in four tiers":                                      leavesInTiers,
		"a budget is answered with patience":                            waitsForBudget,
		"a held pod is not evicted":                                     waitsForHold,
		"a deadline is answered with force":                             forcesAtDeadline,
		"volumes detach before the instance goes":                       waitsForVolumes,
		"a volume that does not detach is given up at the deadline":     givesVolumeUp,
		"a claim whose time is over goes, budgets are still asked":      expires,
		"a broken node goes at once, unless too many are sick":          repairs,
		"a node deleted by hand takes its claim along":                  nodeDeletedByHand,
		"a claim for which there is no instance type goes":              noInstanceType,
		"a claim of a class that does not exist goes":                   noClass,
		"a claim of somebody else's class is left alone":                notOurs,
		"startup taints hold initialization back":                       startupTaints,
		"a claim whose instance vanished is collected":                  instanceVanished,
		"an instance that no claim knows is collected":                  orphanInstance,
		"a node that no claim knows drains":                             orphanNode,
		"a dead node whose instance is gone is let go at once":          deadNode,
		"a pod that comes or goes is noted on the claim":                podEvents,
		"a claim that loses its class label gets it back":               hydrates,
		"a node that is smaller than promised is reported on the claim": tooSmall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, w)
		})
	}
}

func lives(t *testing.T, w *world) {
	before := count(t, w.Metrics.NodesCreated.WithLabelValues("", "test-zone-a"))
	claim := w.claim(t, "life", func(c *karpenterv1.NodeClaim) {
		c.Labels = map[string]string{"team": "a"}
		c.Annotations = map[string]string{"note": "x"}
		c.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
		c.Spec.Requirements = append(c.Spec.Requirements, karpenterv1.NodeSelectorRequirementWithMinValues{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-a"},
		})
	})
	node := w.ready(t, claim)
	for _, label := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, karpenterv1.CapacityTypeLabelKey, "team", kwokv1alpha1.NodeClassLabelKey} {
		if claim.Labels[label] == "" || claim.Labels[label] != node.Labels[label] {
			t.Errorf("label %s: claim has %q, node has %q", label, claim.Labels[label], node.Labels[label])
		}
	}
	if node.Labels[karpenterv1.NodeRegisteredLabelKey] != "true" || node.Labels[karpenterv1.NodeInitializedLabelKey] != "true" {
		t.Errorf("node lacks the labels of its stages: %v", node.Labels)
	}
	if node.Annotations["note"] != "x" {
		t.Errorf("node has annotations %v, want the claim's", node.Annotations)
	}
	if diff := cmp.Diff(claim.Spec.Taints, node.Spec.Taints); diff != "" {
		t.Errorf("taints (-claim +node):\n%s", diff)
	}
	block := true
	owners := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &block}}
	if diff := cmp.Diff(owners, node.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{karpenterv1.TerminationFinalizer}, node.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if claim.Status.ProviderID != node.Spec.ProviderID || claim.Status.Capacity.Cpu().IsZero() || claim.Status.Allocatable.Cpu().IsZero() {
		t.Errorf("claim has status %+v", claim.Status)
	}
	if got := count(t, w.Metrics.NodesCreated.WithLabelValues("", "test-zone-a")); got < before+1 {
		t.Errorf("nodes_created_total is %v, was %v", got, before)
	}
	must(t, w.Delete(t.Context(), claim))
	w.gone(t, claim, node)
	w.event(t, claim, "Initialized")
	w.event(t, claim, "Finalized")
}

// leavesInTiers watches the pods: none may be evicted while one of an earlier tier is there.
func leavesInTiers(t *testing.T, w *world) {
	claim := w.claim(t, "tiers", func(c *karpenterv1.NodeClaim) { c.Labels = map[string]string{"story": "tiers"} })
	node := w.ready(t, claim)
	tier := map[string]int{}
	critical := func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }
	tier[w.pod(t, node, "tiers-plain").Name] = 0
	tier[w.daemon(t, "tiers-daemon", "").Name] = 1
	tier[w.pod(t, node, "tiers-critical", critical).Name] = 2
	tier[w.daemon(t, "tiers-last", "system-node-critical").Name] = 3

	events, err := w.Watch(t.Context(), &corev1.PodList{}, client.InNamespace("default"))
	must(t, err)
	defer events.Stop()
	must(t, w.Delete(t.Context(), claim))
	there := map[string]bool{}
	for len(tier) > len(there) || anyTrue(there) {
		var event watch.Event
		select {
		case event = <-events.ResultChan():
		case <-t.Context().Done():
			t.Fatal("the pods did not leave")
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || pod.Spec.NodeName != node.Name {
			continue
		}
		there[pod.Name] = event.Type != watch.Deleted
		if pod.DeletionTimestamp == nil || event.Type == watch.Deleted {
			continue
		}
		for other, stays := range there {
			if stays && tier[other] < tier[pod.Name] {
				t.Errorf("%s was evicted while %s was there", pod.Name, other)
			}
		}
	}
	w.gone(t, claim, node)
}

func anyTrue(set map[string]bool) bool {
	for _, v := range set {
		if v {
			return true
		}
	}
	return false
}

// daemon creates a DaemonSet for the nodes of the story of tiers and waits for its pod.
func (w *world) daemon(t *testing.T, name, priority string) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"daemon": name}
	must(t, w.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"story": "tiers"}, PriorityClassName: priority,
					Containers: []corev1.Container{{Name: "c", Image: "example.test/none"}},
				},
			},
		},
	}))
	var pods corev1.PodList
	testkit.Eventually(t, patience, func() error {
		if err := w.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("daemon %s has no running pod", name)
		}
		return nil
	})
	return &pods.Items[0]
}

// budget creates a PDB that keeps the one pod of that name.
func (w *world) budget(t *testing.T, name string) *policyv1.PodDisruptionBudget {
	t.Helper()
	one := intstr.FromInt32(1)
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
	must(t, w.Create(t.Context(), b))
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if b.Status.ObservedGeneration == 0 || b.Status.CurrentHealthy != 1 {
			return errors.New("the budget has not been computed")
		}
		return nil
	})
	return b
}

// draining waits until the node is closed and its drain waits for pods.
func (w *world) draining(t *testing.T, node *corev1.Node) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		if !apply.IsClosed(node) {
			return fmt.Errorf("node %s is not closed", node.Name)
		}
		return nil
	})
	w.event(t, node, "FailedDraining")
}

func (w *world) stays(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp != nil {
		t.Fatalf("pod %s was evicted", pod.Name)
	}
}

func waitsForBudget(t *testing.T, w *world) {
	claim := w.claim(t, "budget")
	node := w.ready(t, claim)
	pod := w.pod(t, node, "budget")
	budget := w.budget(t, "budget")
	refused := w.Metrics.PodsEvictionRequests.WithLabelValues("429")
	before := count(t, refused)
	must(t, w.Delete(t.Context(), claim))
	w.draining(t, node)
	testkit.Eventually(t, patience, func() error {
		if n := count(t, refused) - before; n < 3 {
			return fmt.Errorf("refused %v times", n)
		}
		return nil
	})
	w.stays(t, pod)
	must(t, w.Delete(t.Context(), budget))
	w.gone(t, pod, node, claim)
}

func waitsForHold(t *testing.T, w *world) {
	claim := w.claim(t, "hold")
	node := w.ready(t, claim)
	pod := w.pod(t, node, "hold", func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	})
	must(t, w.Delete(t.Context(), claim))
	w.draining(t, node)
	w.stays(t, pod)
	pod.Annotations = nil
	must(t, w.Update(t.Context(), pod))
	w.gone(t, pod, node, claim)
}

func forcesAtDeadline(t *testing.T, w *world) {
	claim := w.claim(t, "deadline", func(c *karpenterv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &karpenterv1.Duration{Duration: 20 * time.Second}
	})
	node := w.ready(t, claim)
	grace := int64(2)
	pod := w.pod(t, node, "deadline", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace })
	held := w.pod(t, node, "deadline-held", func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = &grace
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	})
	w.budget(t, "deadline")
	must(t, w.Delete(t.Context(), claim))
	w.draining(t, node)
	w.stays(t, pod)
	w.stays(t, held)
	w.event(t, claim, "TerminationGracePeriodExpiring")
	w.event(t, pod, "Disrupted")
	w.event(t, held, "Disrupted")
	w.gone(t, pod, held, node, claim)
}

func waitsForVolumes(t *testing.T, w *world) {
	claim := w.claim(t, "volumes")
	node := w.ready(t, claim)
	attachment := w.attach(t, node, "attachment")
	must(t, w.Delete(t.Context(), claim))
	w.event(t, node, "AwaitingVolumeDetachment")
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	if c := condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeVolumesDetached); c.Reason != "AwaitingVolumeDetachment" {
		t.Errorf("VolumesDetached is %+v", c)
	}
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	must(t, w.Delete(t.Context(), attachment))
	w.gone(t, node, claim)
}

func nodeDeletedByHand(t *testing.T, w *world) {
	claim := w.claim(t, "by-hand")
	node := w.ready(t, claim)
	must(t, w.Delete(t.Context(), node))
	w.gone(t, node, claim)
}

func noInstanceType(t *testing.T, w *world) {
	claim := w.claim(t, "no-type", func(c *karpenterv1.NodeClaim) {
		c.Spec.Requirements[0] = karpenterv1.NodeSelectorRequirementWithMinValues{
			Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"no-such-type"},
		}
	})
	w.event(t, claim, "InsufficientCapacityError")
	w.gone(t, claim)
	if n := count(t, w.Metrics.NodeClaimsDisrupted.WithLabelValues("insufficient_capacity", "", "", "", "graceful")); n < 1 {
		t.Errorf("nodeclaims_disrupted_total is %v", n)
	}
}

func noClass(t *testing.T, w *world) {
	claim := w.claim(t, "no-class", func(c *karpenterv1.NodeClaim) { c.Spec.NodeClassRef.Name = "none" })
	w.gone(t, claim)
}

func notOurs(t *testing.T, w *world) {
	other := w.claim(t, "not-ours", func(c *karpenterv1.NodeClaim) {
		c.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "example.test", Kind: "Other", Name: "default"}
	})
	// A claim that is ours, created later, has gone its whole way: the other was seen.
	w.ready(t, w.claim(t, "ours"))
	must(t, w.garbage.Sweep(t.Context()))
	must(t, w.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	if len(other.Finalizers) != 0 || len(other.Status.Conditions) != 0 || len(other.Labels) != 0 {
		t.Errorf("somebody else's claim was touched: %+v", other)
	}
}

func startupTaints(t *testing.T, w *world) {
	taint := corev1.Taint{Key: "cni", Effect: corev1.TaintEffectNoExecute}
	claim := w.claim(t, "startup", func(c *karpenterv1.NodeClaim) { c.Spec.StartupTaints = []corev1.Taint{taint} })
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if c := condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeInitialized); c.Reason != "StartupTaintsExist" {
			return fmt.Errorf("Initialized is %+v", c)
		}
		return nil
	})
	testkit.Eventually(t, patience, func() error {
		node := &corev1.Node{}
		if err := w.Get(t.Context(), client.ObjectKey{Name: claim.Status.NodeName}, node); err != nil {
			return err
		}
		node.Spec.Taints = nil
		return w.Update(t.Context(), node)
	})
	w.ready(t, claim)
}
