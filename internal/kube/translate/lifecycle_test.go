package translate_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

func TestLifecycleClaim(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	waiting := lifecycle.Condition{Status: lifecycle.Unknown, Since: created}
	for name, tt := range map[string]struct {
		change func(*karpenterv1.NodeClaim)
		want   func(*lifecycle.Claim)
	}{
		"a new claim waits for everything since its creation": {
			change: func(*karpenterv1.NodeClaim) {}, want: func(*lifecycle.Claim) {},
		},
		"a condition counts from its transition": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Status.Conditions = []metav1.Condition{{Type: "Launched", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(created.Add(time.Minute))}}
			},
			want: func(c *lifecycle.Claim) {
				c.IsNew = false
				c.Launched = lifecycle.Condition{Status: lifecycle.True, Since: created.Add(time.Minute)}
			},
		},
		"a bound on the drain of zero is a bound": {
			change: func(nc *karpenterv1.NodeClaim) { nc.Spec.TerminationGracePeriod = &karpenterv1.Duration{} },
			want:   func(c *lifecycle.Claim) { c.HasGrace = true },
		},
		"a deadline is read": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Annotations = map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: "2026-11-20T13:00:00Z"}
			},
			want: func(c *lifecycle.Claim) { c.Deadline = created.Add(time.Hour) },
		},
		"a deadline that cannot be read is none": {
			change: func(nc *karpenterv1.NodeClaim) {
				nc.Annotations = map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: "tomorrow"}
			},
			want: func(*lifecycle.Claim) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
			tt.change(nc)
			want := lifecycle.Claim{
				IsNew: true, Launched: waiting, Registered: waiting, Initialized: waiting,
				StartupTaints: []cluster.Taint{}, Requests: quantity.List{},
			}
			tt.want(&want)
			if diff := cmp.Diff(want, translate.LifecycleClaim(nc)); diff != "" {
				t.Errorf("LifecycleClaim (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDrainClaimRefusesADeadlineThatCannotBeRead(t *testing.T) {
	t.Parallel()
	nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: "tomorrow"},
	}}
	if claim, err := translate.DrainClaim(nc); err == nil {
		t.Errorf("DrainClaim = %+v, want an error: a drain without its deadline would never end", claim)
	}
}

func TestLifecycleNode(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Finalizers: []string{karpenterv1.TerminationFinalizer},
			Labels: map[string]string{karpenterv1.NodeRegisteredLabelKey: "true"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "own", Effect: corev1.TaintEffectNoSchedule},
			karpenterv1.UnregisteredTaint(),
			{Key: "readiness.k8s.io/x", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		},
	}
	own := cluster.Taint{Key: "own", Effect: cluster.NoSchedule}
	unregistered := cluster.Taint{Key: karpenterv1.UnregisteredTaintKey, Effect: cluster.NoExecute}
	gate := cluster.Taint{Key: "readiness.k8s.io/x", Effect: cluster.NoSchedule}
	want := lifecycle.Node{
		Name: "n1", Ready: true, HasFinalizer: true, IsRegistered: true, IsUnregistered: true,
		Taints: []cluster.Taint{own, unregistered, gate}, Ephemeral: []cluster.Taint{unregistered, gate},
		Allocatable: quantity.List{quantity.CPU: 2000},
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule} {
		node.Spec.Taints[1].Effect = effect
		want.Taints[1].Effect, want.Ephemeral[0].Effect = string(effect), string(effect)
		if diff := cmp.Diff(want, translate.LifecycleNode(node)); diff != "" {
			t.Errorf("LifecycleNode (-want +got):\n%s", diff)
		}
	}
}

func TestVolumeClaims(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	if diff := cmp.Diff([]string{"shared", "web-scratch"}, translate.VolumeClaims(pod)); diff != "" {
		t.Errorf("VolumeClaims (-want +got):\n%s", diff)
	}
}

// TestTheSoonerOfAgeAndCloudEndsANode also checks which of the two it is.
func TestTheSoonerOfAgeAndCloudEndsANode(t *testing.T) {
	t.Parallel()
	born := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		age  *time.Duration
		by   string
		want time.Time
		why  string
	}{
		"neither":                    {},
		"age alone":                  {age: &day, want: born.Add(day)},
		"the cloud alone":            {by: "2026-11-22T13:00:00Z", want: born.Add(time.Hour), why: "spot_interrupted"},
		"the cloud is sooner":        {age: &day, by: "2026-11-22T13:00:00Z", want: born.Add(time.Hour), why: "spot_interrupted"},
		"age is sooner":              {age: &day, by: "2026-11-25T13:00:00Z", want: born.Add(day)},
		"what is written is no time": {age: &day, by: "soon", want: born.Add(day)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(born), Annotations: map[string]string{
					translate.ReplaceByAnnotationKey: tc.by, translate.InterruptionAnnotationKey: "spot_interrupted",
				},
			}}
			nc.Spec.ExpireAfter.Duration = tc.age
			if got := translate.Expires(nc); !got.Equal(tc.want) {
				t.Errorf("Expires() = %s, want %s", got, tc.want)
			}
			if got := translate.Reclaimed(nc); got != tc.why {
				t.Errorf("Reclaimed() = %q, want %q", got, tc.why)
			}
		})
	}
}

// TestGraceOfAPod checks that no grace that the API server takes overflows.
func TestGraceOfAPod(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]time.Duration{
		0: 0, 30: 30 * time.Second, math.MaxInt64: 876_000 * time.Hour, math.MaxInt64/int64(time.Second) + 1: 876_000 * time.Hour, -1: 0,
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}}
		if got := translate.Grace(p); got != want {
			t.Errorf("a pod with a grace of %d s has %s, want %s", seconds, got, want)
		}
	}
	if got := translate.Grace(&corev1.Pod{}); got != 0 {
		t.Errorf("a pod without a grace has %s", got)
	}
}
