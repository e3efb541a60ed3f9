package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsThatAreAlikeShareConstraints, and no others, whoever was added before them. A pod may name any owner, even
// one of another namespace.
func TestPodsThatAreAlikeShareConstraints(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	of := func(name, owner, namespace, app string) *corev1.Pod {
		p := pendingPod(name)
		p.Namespace, p.Labels = namespace, map[string]string{"app": app}
		if owner != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{UID: "owner", Name: owner, Controller: &yes}}
		}
		return p
	}
	gone := of("gone", "web", "default", "b")
	for _, p := range []*corev1.Pod{of("stays", "web", "default", "a"), gone} {
		upsert(s, p)
	}
	remove(s, gone) // it was the last of its owner that was added, and the only one with these constraints
	for _, p := range []*corev1.Pod{of("same", "web", "default", "b"), of("elsewhere", "web", "other", "b"), of("alone", "", "default", "b")} {
		upsert(s, p)
	}
	snap := s.Snapshot()
	at := map[string]int{}
	for i := range snap.Pending {
		at[snap.Pending[i].Name] = i
	}
	same, alone, elsewhere := &snap.Pending[at["same"]], &snap.Pending[at["alone"]], &snap.Pending[at["elsewhere"]]
	if same.Constraints != alone.Constraints {
		t.Error("two pods that are alike do not share constraints")
	}
	if elsewhere.Constraints.Namespace != "other" {
		t.Errorf("a pod of namespace other has the constraints of namespace %s", elsewhere.Constraints.Namespace)
	}
}
