package translate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var podNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func owned(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind})
	}
}

func deleted(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: podNow.Add(-ago)} }
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func trueCondition(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: text}
	}
}

func started(ago time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: podNow.Add(-ago)} }
}

func tolerates(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

// words returns the names of the predicates that hold for the pod.
func words(p *corev1.Pod) string {
	var names []string
	for _, predicate := range []struct {
		name  string
		holds bool
	}{
		{"terminal", translate.Terminal(p)},
		{"terminating", translate.Terminating(p)},
		{"active", translate.Active(p)},
		{"daemon", translate.OwnedByDaemonSet(p)},
		{"mirror", translate.Mirror(p)},
		{"critical", translate.Critical(p)},
		{"reschedulable", translate.Reschedulable(p)},
		{"held", translate.DoNotDisruptActive(p, podNow)},
		{"disruptable", translate.Disruptable(p, podNow)},
		{"evictable", translate.Evictable(p, podNow)},
		{"drainable", translate.Drainable(p, podNow)},
		{"waiting", translate.WaitingEviction(p, podNow)},
	} {
		if predicate.holds {
			names = append(names, predicate.name)
		}
	}
	return strings.Join(names, " ")
}

func TestPodPredicates(t *testing.T) {
	t.Parallel()
	type with = []func(*corev1.Pod)
	for name, tt := range map[string]struct {
		with with
		want string
	}{
		"a running pod": {want: "active reschedulable disruptable evictable drainable waiting"},
		"an ended pod is not waited for": {
			with: with{phase(corev1.PodSucceeded)}, want: "terminal disruptable drainable",
		},
		"a failed pod has ended": {
			with: with{phase(corev1.PodFailed)}, want: "terminal disruptable drainable",
		},
		"a terminating pod is waited for and not evicted again": {
			with: with{deleted(time.Second)}, want: "terminating disruptable drainable waiting",
		},
		"a terminating pod is stuck a minute after its deletion time": {
			with: with{deleted(time.Minute + time.Second)}, want: "terminating disruptable",
		},
		"a terminating pod of a StatefulSet comes back elsewhere": {
			with: with{deleted(time.Second), owned("apps/v1", "StatefulSet")},
			want: "terminating reschedulable disruptable drainable waiting",
		},
		"a terminating pod of another group's StatefulSet does not": {
			with: with{deleted(time.Second), owned("other/v1", "StatefulSet")},
			want: "terminating disruptable drainable waiting",
		},
		"a daemon is drained and not rescheduled": {
			with: with{owned("apps/v1", "DaemonSet")}, want: "active daemon disruptable evictable drainable waiting",
		},
		"a mirror pod is left alone": {
			with: with{owned("v1", "Node")}, want: "active mirror disruptable",
		},
		"a critical pod": {
			with: with{func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }},
			want: "active critical reschedulable disruptable evictable drainable waiting",
		},
		"a held pod is waited for and not evicted": {
			with: with{trueCondition("true")}, want: "active reschedulable held drainable waiting",
		},
		"an ended pod's hold does not hold its node": {
			with: with{trueCondition("true"), phase(corev1.PodSucceeded)}, want: "terminal held disruptable drainable",
		},
		"a pod that tolerates the disrupted taint stays": {
			with: with{tolerates(corev1.Toleration{Key: karpenterv1.DisruptedTaintKey, Operator: corev1.TolerationOpExists})},
			want: "active reschedulable disruptable",
		},
		"a pod that tolerates everything stays": {
			with: with{tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})},
			want: "active reschedulable disruptable",
		},
		"a toleration of the taint with another effect is none": {
			with: with{tolerates(corev1.Toleration{
				Key: karpenterv1.DisruptedTaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			})},
			want: "active reschedulable disruptable evictable drainable waiting",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			for _, change := range tt.with {
				change(pod)
			}
			if diff := cmp.Diff(tt.want, words(pod)); diff != "" {
				t.Errorf("predicates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoNotDisrupt(t *testing.T) {
	t.Parallel()
	const key, older = karpenterv1.DoNotDisruptAnnotationKey, karpenterv1.DoNotEvictAnnotationKey
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
	}
	for name, tt := range map[string]struct {
		with []func(*corev1.Pod)
		want translate.Hold
	}{
		"no annotation":            {want: translate.Hold{}},
		"true holds for good":      {with: []func(*corev1.Pod){trueCondition("true")}, want: translate.Hold{Key: key, Active: true}},
		"false is not understood":  {with: []func(*corev1.Pod){trueCondition("false")}, want: translate.Hold{Key: key, Invalid: true}},
		"empty is not understood":  {with: []func(*corev1.Pod){trueCondition("")}, want: translate.Hold{Key: key, Invalid: true}},
		"a zero duration is wrong": {with: []func(*corev1.Pod){trueCondition("0s")}, want: translate.Hold{Key: key, Invalid: true}},
		"a negative one as well":   {with: []func(*corev1.Pod){trueCondition("-5m")}, want: translate.Hold{Key: key, Invalid: true}},
		"a duration holds a pod that has not started": {
			with: []func(*corev1.Pod){trueCondition("10m")}, want: translate.Hold{Key: key, Active: true},
		},
		"a duration holds until it has passed since the start": {
			with: []func(*corev1.Pod){trueCondition("10m"), started(9 * time.Minute)},
			want: translate.Hold{Key: key, Active: true, Until: podNow.Add(time.Minute)},
		},
		"the older spelling holds for good": {
			with: []func(*corev1.Pod){annotated(older, "true")}, want: translate.Hold{Active: true, Key: older, IsOlder: true},
		},
		"the older spelling knows no other value": {with: []func(*corev1.Pod){annotated(older, "10m")}},
		"the newer spelling counts beside it": {
			with: []func(*corev1.Pod){annotated(older, "true"), annotated(key, "10m"), started(10 * time.Minute)}, want: translate.Hold{Key: key, Until: podNow},
		},
		"that of nodes says nothing on a pod": {with: []func(*corev1.Pod){annotated(karpenterv1.DoNotConsolidateAnnotationKey, "true")}},
		"and no longer": {
			with: []func(*corev1.Pod){trueCondition("10m"), started(10 * time.Minute)},
			want: translate.Hold{Key: key, Until: podNow},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			for _, change := range tt.with {
				change(pod)
			}
			if diff := cmp.Diff(tt.want, translate.DoNotDisrupt(pod, podNow)); diff != "" {
				t.Errorf("DoNotDisrupt (-want +got):\n%s", diff)
			}
		})
	}
}
