package podevents

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// podOf returns a pod of an age, on a node unless that is empty.
func podOf(age time.Duration, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }

// TestWhatIsAPodEvent shows among others that a restart of ours, which sees
// every pod as if it were new, does not.
func TestWhatIsAPodEvent(t *testing.T) {
	t.Parallel()
	moves := moves(func() time.Time { return noon })
	created := func(p *corev1.Pod) bool { return moves.Create(event.CreateEvent{Object: p}) }
	updated := func(before, after *corev1.Pod) bool {
		return moves.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	deleted := func(p *corev1.Pod) bool { return moves.Delete(event.DeleteEvent{Object: p}) }
	for name, c := range map[string]struct{ got, want bool }{
		"a pod that is bound":                     {updated(podOf(time.Hour, ""), podOf(time.Hour, "n1")), true},
		"a pod that is created bound":             {created(podOf(time.Second, "n1")), true},
		"an old pod that is seen after a restart": {created(podOf(time.Hour, "n1")), false},
		"a pod without a node":                    {created(podOf(time.Second, "")), false},
		"a pod that begins to end":                {updated(podOf(time.Hour, "n1"), podOf(time.Hour, "n1", deleting)), true},
		"a pod that ends":                         {updated(podOf(time.Hour, "n1"), podOf(time.Hour, "n1", ended)), true},
		"a pod that is gone after that":           {deleted(podOf(time.Hour, "n1", deleting)), false},
		"a pod that is gone without notice":       {deleted(podOf(time.Hour, "n1")), true},
		"anything else that changes of a pod":     {updated(podOf(time.Hour, "n1"), podOf(time.Hour, "n1", labelled)), false},
		"a pod of a DaemonSet that is bound":      {updated(podOf(time.Hour, "", daemon), podOf(time.Hour, "n1", daemon)), false},
		"a pod of a DaemonSet that begins to end": {updated(podOf(time.Hour, "n1", daemon), podOf(time.Hour, "n1", daemon, deleting)), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: counts %v, want %v", name, c.got, c.want)
		}
	}
}
