package mirror

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// ownedPod returns a pod that runs on n1 and that a controller made now.
func ownedPod(name, controller string, now time.Time) *corev1.Pod {
	p, yes := boundPod(name, "n1"), true
	p.CreationTimestamp = metav1.NewTime(now)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: controller, UID: types.UID(controller), Controller: &yes}}
	return p
}

// evict has the eviction API end the pod.
func evict(s *Store, p *corev1.Pod) {
	p = p.DeepCopy()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
	upsert(s, p)
	p = p.DeepCopy()
	p.DeletionTimestamp = &metav1.Time{Time: s.opts.Now()}
	upsert(s, p)
	remove(s, p)
}

// TestAPodThatComesForAnEvictedOneIsKnown: of three pods that a controller makes after two
// were evicted, two have moved; what others make has not.
func TestAPodThatComesForAnEvictedOneIsKnown(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	upsert(s, testNode("n1", "id-1", true))
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		upsert(s, ownedPod(name, "web", noon.Add(-time.Hour)))
	}
	evict(s, ownedPod("web-1", "web", noon.Add(-time.Hour)))
	evict(s, ownedPod("web-2", "web", noon.Add(-time.Hour)))
	now = noon.Add(time.Second)
	upsert(s, ownedPod("web-3", "web", noon.Add(-time.Hour))) // seen again
	upsert(s, ownedPod("db-1", "db", now))
	for _, name := range []string{"web-4", "web-5", "web-6"} {
		upsert(s, ownedPod(name, "web", now))
	}
	want := map[string]time.Time{"web-3": {}, "db-1": {}, "web-4": now, "web-5": now, "web-6": {}}
	got := map[string]time.Time{}
	for _, r := range s.Snapshot().Nodes[0].Reschedulable {
		got[r.Name] = r.Moved
	}
	for name, moved := range want {
		if !got[name].Equal(moved) {
			t.Errorf("%s came in the place of another at %v, want %v", name, got[name], moved)
		}
	}
}

// TestAPodThatMovesAgainAndAgainIsKnown: moves are counted as long as each comes soon after the last.
func TestAPodThatMovesAgainAndAgainIsKnown(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	upsert(s, testNode("n1", "id-1", true))
	pod := ownedPod("web-0", "web", noon.Add(-time.Hour))
	upsert(s, pod)
	var got []int
	for i, stays := range []time.Duration{0, 29 * time.Minute, 59 * time.Minute, 2 * time.Hour, 29 * time.Minute} {
		now = now.Add(stays)
		evict(s, pod)
		pod = ownedPod(fmt.Sprint("web-", i+1), "web", now)
		upsert(s, pod)
		got = append(got, s.Snapshot().Nodes[0].Reschedulable[0].Moves)
	}
	if want := []int{1, 2, 3, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("moves in a row: %d, want %d", got, want)
	}
	for range 2 * movesMost {
		evict(s, pod)
		pod = ownedPod(pod.Name+"x", "web", now)
		upsert(s, pod)
	}
	if got := s.Snapshot().Nodes[0].Reschedulable[0].Moves; got != movesMost {
		t.Errorf("%d moves are counted, want %d at most", got, movesMost)
	}
}

// TestEvictionsAreForgotten: a pod that comes long after an eviction has not come for it,
// and nothing is kept.
func TestEvictionsAreForgotten(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	upsert(s, testNode("n1", "id-1", true))
	old := ownedPod("web-1", "web", noon.Add(-time.Hour))
	upsert(s, old)
	evict(s, old)
	now = noon.Add(evictionKept)
	upsert(s, ownedPod("web-2", "web", now))
	if r := s.Snapshot().Nodes[0].Reschedulable[0]; !r.Moved.IsZero() {
		t.Errorf("%s is said to have come for another at %v", r.Name, r.Moved)
	}
	if len(s.evictions.byController) > 0 {
		t.Errorf("evictions are still known of %d controllers", len(s.evictions.byController))
	}
}

// TestPodsOlderThanTheProcessMayHaveMoved: after a restart nobody knows what was evicted before,
// so pods that were made before, on nodes that were there, count as moved when they were made.
// A pod without a controller replaced no other.
func TestPodsOlderThanTheProcessMayHaveMoved(t *testing.T) {
	t.Parallel()
	minuteAgo := noon.Add(-time.Minute)
	for created, want := range map[time.Time]map[string]time.Time{
		noon.Add(-time.Hour):  {"lone-1": {}, "web-1": minuteAgo, "web-2": {}},
		noon.Add(time.Second): {"lone-1": {}, "web-1": {}, "web-2": {}},
	} {
		s := newTestStore(func() time.Time { return noon })
		s.evictions.started = noon
		node := testNode("n1", "id-1", true)
		node.CreationTimestamp = metav1.NewTime(created)
		upsert(s, node)
		lone := ownedPod("lone-1", "lone", minuteAgo)
		lone.OwnerReferences = nil
		for _, p := range []*corev1.Pod{lone, ownedPod("web-1", "web", minuteAgo), ownedPod("web-2", "web", noon)} {
			upsert(s, p)
			upsert(s, p.DeepCopy()) // seen again
		}
		got := map[string]time.Time{}
		for _, r := range s.Snapshot().Nodes[0].Reschedulable {
			got[r.Name] = r.Moved
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("on a node created at %s they may have moved at (-want +got):\n%s", created, diff)
		}
	}
}

// TestAPodHasATargetNodeAsLongAsItsCommand: the target node that a command plans for a pod is
// shown while the pod runs and while its node is deleted, until the pod or the command is gone.
func TestAPodHasATargetNodeAsLongAsItsCommand(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	claim := testClaim("c1", "kwok://n1")
	claim.Annotations = map[string]string{translate.StepAnnotationKey: translate.StepAnnotation(&plan.Command{ID: "s1", Remove: make([]plan.Removal, 1)})}
	upsert(s, claim)
	upsert(s, testNode("n1", "kwok://n1", true))
	upsert(s, boundPod("web", "n1"))
	target := func() string { return s.Snapshot().Nodes[0].Reschedulable[0].TargetNode }
	before := target()
	s.AssignFor("s1", []cluster.PodRef{{UID: "web"}, {UID: "gone"}}, "n2")
	during := target()
	upsert(s, boundPod("web", "n1"))
	if got := []string{before, during, target()}; !slices.Equal(got, []string{"", "n2", "n2"}) {
		t.Errorf("target nodes before, and when it was meant for n2: %q", got)
	}
	if n := s.Snapshot().Nodes[0]; n.Planned > 0 {
		t.Errorf("%d pods are meant for the node that they are to leave", n.Planned)
	}
	deleting := claim.DeepCopy()
	deleting.DeletionTimestamp = &metav1.Time{Time: noon}
	upsert(s, deleting)
	if pending := s.Snapshot().Pending; len(pending) != 1 || pending[0].Planned != "n2" {
		t.Errorf("when its node is deleted: %+v", pending)
	}
	another := claim.DeepCopy()
	another.Annotations[translate.StepAnnotationKey] = translate.StepAnnotation(&plan.Command{ID: "s2", Remove: make([]plan.Removal, 1)})
	upsert(s, another)
	if target() != "" {
		t.Errorf("of another step: %q", target())
	}
}
