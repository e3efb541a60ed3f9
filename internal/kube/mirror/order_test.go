package mirror

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// TestANodeIsAlwaysHeldByTheSamePod found by the world's seed 1: of several pods that hold
// a node another one was named each time, and an event written about each.
func TestANodeIsAlwaysHeldByTheSamePod(t *testing.T) {
	t.Parallel()
	s := NewStore(Options{Now: time.Now, Manages: func(string, string) bool { return true }})
	if err := s.Observe(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		name := fmt.Sprintf("pod-%02d", i)
		if err := s.Observe(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}},
			Spec:       corev1.PodSpec{NodeName: "n"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	const want = "pod /pod-00 has annotation karpenter.sh/do-not-disrupt"
	if got := s.Snapshot().Nodes[0].DoNotDisrupt; got != want {
		t.Errorf("held because %s, want %s", got, want)
	}
}
