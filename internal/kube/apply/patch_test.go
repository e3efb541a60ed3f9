package apply

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
)

var patchNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func patchMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "a", UID: "1", ResourceVersion: "55", Generation: 2, CreationTimestamp: metav1.NewTime(patchNow),
		Labels: map[string]string{"zone": "a", "team": "<blue & green>"}, Annotations: map[string]string{"why": "because"},
		Finalizers: []string{"example.com/held", karpenterv1.TerminationFinalizer},
	}
}

func patchClaim() *karpenterv1.NodeClaim {
	term := karpenterv1.Duration{Duration: time.Hour}
	return &karpenterv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"}, ObjectMeta: patchMeta(),
		Spec: karpenterv1.NodeClaimSpec{
			Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}, TerminationGracePeriod: &term,
			NodeClassRef: &karpenterv1.NodeClassReference{Group: "g", Kind: "k", Name: "n"},
		},
		Status: karpenterv1.NodeClaimStatus{
			NodeName: "n1", ProviderID: "i-1", LastPodEventTime: metav1.NewTime(patchNow),
			Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")},
			Conditions: []metav1.Condition{{Type: lifecycle.Launched, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(patchNow)}},
		},
	}
}

func patchNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: patchMeta(),
		Spec:       corev1.NodeSpec{ProviderID: "i-1", Taints: []corev1.Taint{karpenterv1.UnregisteredTaint(), {Key: "cni", Effect: corev1.TaintEffectNoExecute}}},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func patchPool() *karpenterv1.NodePool {
	return &karpenterv1.NodePool{ObjectMeta: patchMeta(), Status: karpenterv1.NodePoolStatus{Resources: corev1.ResourceList{"nodes": resource.MustParse("3")}}}
}

// change makes an object as it was before something happened to it, and after.
type change func() (before, after client.Object)

func edited[T client.Object](object func() T, by func(T)) change {
	return func() (client.Object, client.Object) {
		before, after := object(), object()
		by(after)
		return before, after
	}
}

// read returns what a patch says, which is the same in whatever order it says it.
func read(t *testing.T, patch []byte) (says map[string]any) {
	t.Helper()
	if err := json.Unmarshal(patch, &says); err != nil {
		t.Fatalf("read %s: %v", patch, err)
	}
	return says
}

// TestPatchesAreThoseOfTheClient compares what is sent with what client.MergeFrom sends.
func TestPatchesAreThoseOfTheClient(t *testing.T) {
	t.Parallel()
	onClaim := func(by func(*karpenterv1.NodeClaim)) change { return edited(patchClaim, by) }
	onNode := func(by func(*corev1.Node)) change { return edited(patchNode, by) }
	onPool := func(by func(*karpenterv1.NodePool)) change { return edited(patchPool, by) }
	for name, made := range map[string]change{
		"nothing on a claim":           onClaim(func(*karpenterv1.NodeClaim) {}),
		"a condition that turns True":  onClaim(func(c *karpenterv1.NodeClaim) { condition.ForNodeClaim(c).SetTrue(lifecycle.Registered, patchNow) }),
		"the last condition goes":      onClaim(func(c *karpenterv1.NodeClaim) { c.Status.Conditions = nil }),
		"conditions that are empty":    onClaim(func(c *karpenterv1.NodeClaim) { c.Status.Conditions = []metav1.Condition{} }),
		"words that HTML would escape": onClaim(func(c *karpenterv1.NodeClaim) { c.Status.Conditions[0].Message = "a < b && \"c\" > d \u2028 \xff" }),
		"a pod that came":              onClaim(func(c *karpenterv1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(patchNow.Add(time.Minute)) }),
		"no pod ever came":             onClaim(func(c *karpenterv1.NodeClaim) { c.Status.LastPodEventTime = metav1.Time{} }),
		"a launch": onClaim(func(c *karpenterv1.NodeClaim) {
			c.Status.ProviderID, c.Status.ImageID = "i-2", "ami-1"
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m"), "example.com/gpu": resource.MustParse("1")}
			c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3800m")}
		}),
		"an amount that is written in another way": onClaim(func(c *karpenterv1.NodeClaim) { c.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("4000m") }),
		"a status that is taken away whole":        onClaim(func(c *karpenterv1.NodeClaim) { c.Status = karpenterv1.NodeClaimStatus{} }),
		"a finalizer that goes":                    onClaim(func(c *karpenterv1.NodeClaim) { c.Finalizers = c.Finalizers[:1] }),
		"an annotation more":                       onClaim(func(c *karpenterv1.NodeClaim) { c.Annotations["deadline"] = "soon" }),
		"the only annotation goes":                 onClaim(func(c *karpenterv1.NodeClaim) { delete(c.Annotations, "why") }),
		"labels change, come and go":               onClaim(func(c *karpenterv1.NodeClaim) { c.Labels = map[string]string{"zone": "b", "new": "<1>"} }),
		"all labels go":                            onClaim(func(c *karpenterv1.NodeClaim) { c.Labels = nil }),
		"a spec of other pointers":                 onClaim(func(c *karpenterv1.NodeClaim) { c.Spec.NodeClassRef.Name, c.Spec.TerminationGracePeriod = "m", nil }),
		"a spec that gets pointers": func() (client.Object, client.Object) {
			after, before := patchClaim(), patchClaim()
			before.Spec.NodeClassRef, before.Spec.TerminationGracePeriod, before.Labels = nil, nil, nil
			return before, after
		},
		"maps that are empty":                 onClaim(func(c *karpenterv1.NodeClaim) { c.Labels, c.Annotations = map[string]string{}, map[string]string{} }),
		"words of two alphabets in a new key": onClaim(func(c *karpenterv1.NodeClaim) { c.Labels["<\"é\">"] = "\u2028" }),
		"an owner that is blocked": onClaim(func(c *karpenterv1.NodeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Name: "p", BlockOwnerDeletion: new(true)}}
		}),
		"a deletion": onClaim(func(c *karpenterv1.NodeClaim) {
			c.DeletionTimestamp, c.DeletionGracePeriodSeconds, c.Generation = &metav1.Time{Time: patchNow}, new(int64), 0
		}),
		"a creation that is not known": onClaim(func(c *karpenterv1.NodeClaim) { c.CreationTimestamp = metav1.Time{} }),
		"the same time elsewhere": onClaim(func(c *karpenterv1.NodeClaim) {
			c.Status.LastPodEventTime = metav1.NewTime(patchNow.In(time.FixedZone("there", 3600)))
			c.Status.Conditions[0].LastTransitionTime = c.Status.LastPodEventTime
		}),
		"metadata and status at once": onClaim(func(c *karpenterv1.NodeClaim) {
			c.Labels["zone"], c.Status.NodeName = "b", ""
		}),
		"a version that was not ours": onClaim(func(c *karpenterv1.NodeClaim) { c.ResourceVersion, c.Labels["zone"] = "56", "b" }),
		"nothing on a Node":           onNode(func(*corev1.Node) {}),
		"a Node that registers":       onNode(func(n *corev1.Node) { adopt(n, patchClaim()); open(n) }),
		"the last taint of a Node":    onNode(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:0] }),
		"a taint on a Node":           onNode(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, karpenterv1.DisruptedTaint()) }),
		"a Node that is cordoned":     onNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		"a Node's condition":          onNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }),
		"the amounts of a pool":       onPool(func(p *karpenterv1.NodePool) { p.Status.Resources["nodes"] = resource.MustParse("4") }),
		"the generation seen by a pool": onPool(func(p *karpenterv1.NodePool) {
			p.Status.NodeClassObservedGeneration = 3
			condition.ForNodePool(p).SetTrue(karpenterv1.ConditionTypeNodeClassReady, patchNow)
		}),
		"a pod's condition": edited(func() *corev1.Pod { return &corev1.Pod{ObjectMeta: patchMeta()} }, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := made()
			for _, tt := range []struct {
				lock      string
				ours, its client.Patch
			}{
				{"without a lock", mergeFrom(before), client.MergeFrom(before)},
				{"with a lock", mergeFromSeen(before), client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})},
			} {
				want, err := tt.its.Data(after)
				if err != nil {
					t.Fatal(err)
				}
				got, err := tt.ours.Data(after)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(read(t, want), read(t, got)); diff != "" || tt.ours.Type() != tt.its.Type() {
					t.Errorf("%s, the %s is (-client's +ours):\n%s", tt.lock, tt.ours.Type(), diff)
				}
			}
			if was, is := made(); !cmp.Equal(was, before) || !cmp.Equal(is, after) {
				t.Errorf("making a patch changed the objects")
			}
		})
	}
}

// TestAStatusIsPatchedAlone: what else differs is not for the API server's status to change; the lock
// is kept.
func TestAStatusIsPatchedAlone(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]func(*karpenterv1.NodeClaim){
		"a word":    func(c *karpenterv1.NodeClaim) { c.Status.NodeName = "m" },
		"no word":   func(c *karpenterv1.NodeClaim) { c.Status.NodeName = "" }, // which is not plain
		"the whole": func(c *karpenterv1.NodeClaim) { c.Status = karpenterv1.NodeClaimStatus{} },
	} {
		before, after := patchClaim(), patchClaim()
		by(after)
		want, err := mergeFromSeen(before).Data(after)
		if err != nil {
			t.Fatal(err)
		}
		after.Labels, after.Spec.TerminationGracePeriod = map[string]string{"zone": "b"}, nil
		patch := mergeFromSeen(before).(mergePatch)
		patch.statusOnly = true
		got, err := patch.Data(after)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read(t, want), read(t, got)); diff != "" {
			t.Errorf("%s: the patch is (-want +got):\n%s", name, diff)
		}
	}
}
