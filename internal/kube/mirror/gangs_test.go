package mirror

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// member makes a pod one of a PodGroup.
func member(p *corev1.Pod, group string) *corev1.Pod {
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// podGroupOf returns a PodGroup; with a minimum of 0 its pods are scheduled one by one.
func podGroupOf(name string, minimum int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(noon)}}
	if minimum == 0 {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
		return g
	}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum}
	return g
}

// gangsOf returns the gangs of a snapshot, and the gang of each pending pod.
func gangsOf(snap *cluster.Snapshot) (gangs []cluster.Gang, of map[string]string) {
	of = map[string]string{}
	for i := range snap.Pending {
		of[snap.Pending[i].Name] = snap.Pending[i].Gang
	}
	return snap.Gangs, of
}

func TestGangsInSnapshots(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	untried, over, deleting, elsewhere := member(pendingPod("untried"), "train"), member(boundPod("over", "n1"), "train"), member(boundPod("leaving", "n1"), "train"), pendingPod("elsewhere")
	untried.Status.Conditions = nil
	over.Status.Phase = corev1.PodSucceeded
	deleting.DeletionTimestamp = &metav1.Time{Time: noon}
	elsewhere.Namespace = "other"
	madeRoomFor := member(pendingPod("room"), "train")
	madeRoomFor.Status.NominatedNodeName = "n1"
	if err := s.Observe(
		testNode("n1", "p1", true), podGroupOf("train", 4), podGroupOf("basic", 0),
		member(pendingPod("a"), "train"), member(pendingPod("b"), "train"), untried, madeRoomFor,
		member(boundPod("runs", "n1"), "train"), over, deleting,
		member(pendingPod("c"), "basic"), member(pendingPod("d"), "missing"), pendingPod("e"), member(elsewhere, "train"),
	); err != nil {
		t.Fatal(err)
	}
	gangs, of := gangsOf(s.Snapshot())
	if diff := cmp.Diff([]cluster.Gang{{Namespace: "default", Name: "train", Created: noon, Minimum: 4, Bound: 2, Known: 5}}, gangs); diff != "" {
		t.Errorf("gangs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "train", "b": "train", "c": "", "d": "missing", "e": "", "elsewhere": "train"}, of); diff != "" {
		t.Errorf("gangs of pods (-want +got):\n%s", diff)
	}
	remove(s, member(pendingPod("a"), "train"))
	remove(s, member(boundPod("runs", "n1"), "train"))
	upsert(s, podGroupOf("train", 2))
	if gangs, _ := gangsOf(s.Snapshot()); len(gangs) != 1 || gangs[0].Minimum != 2 || gangs[0].Bound != 1 || gangs[0].Known != 3 {
		t.Errorf("after changes: %+v", gangs)
	}
	remove(s, podGroupOf("train", 2))
	if gangs, of := gangsOf(s.Snapshot()); len(gangs) != 0 || of["b"] != "train" {
		t.Errorf("without the PodGroup: %+v, and b is of %q", gangs, of["b"])
	}
	for _, name := range []string{"b", "untried", "room", "leaving", "c", "d", "e"} {
		remove(s, member(pendingPod(name), "train"))
	}
	remove(s, elsewhere)
	if len(s.gangs.pods) != 0 {
		t.Errorf("what is remembered when all pods are gone: %v", s.gangs.pods)
	}
}

// TestPodGroupsAreFed by the watch, once it is there; until then nothing is begun.
func TestPodGroupsAreFed(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	missing := &meta.NoKindMatchError{}
	if err := s.FeedPodGroups(t.Context(), &informertest.FakeInformers{Error: missing}); !meta.IsNoMatchError(err) {
		t.Errorf("where they are not served: %v", err)
	}
	informer := controllertest.NewFakeInformer(controllertest.Synced)
	if err := s.FeedPodGroups(t.Context(), &informertest.FakeInformers{InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"): informer,
	}}); err != nil {
		t.Fatal(err)
	}
	minimum := func() int {
		gangs, _ := gangsOf(s.Snapshot())
		if len(gangs) == 0 {
			return 0
		}
		return gangs[0].Minimum
	}
	upsert(s, member(pendingPod("a"), "train"))
	observed := s.EventCount()
	for what, c := range []struct {
		do   func()
		want int
	}{
		{func() { informer.Add(podGroupOf("train", 4)) }, 4},
		{func() { informer.Update(podGroupOf("train", 4), podGroupOf("train", 2)) }, 2},
		{func() { informer.Delete(podGroupOf("train", 2)) }, 0},
	} {
		if c.do(); minimum() != c.want {
			t.Errorf("%d: minimum %d, want %d", what, minimum(), c.want)
		}
	}
	if s.EventCount() != observed+3 {
		t.Errorf("counted %d changes, want 3", s.EventCount()-observed)
	}
}

// TestMembersOnANodeThatGoesAreNotBound: they need another node as their gang does.
func TestMembersOnANodeThatGoesAreNotBound(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	going := testNode("n1", "p1", true)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	if err := s.Observe(going, testNode("n2", "p2", true), podGroupOf("train", 2), member(boundPod("a", "n1"), "train"), member(boundPod("b", "n2"), "train")); err != nil {
		t.Fatal(err)
	}
	gangs, of := gangsOf(s.Snapshot())
	if len(gangs) != 1 || gangs[0].Bound != 1 || gangs[0].Known != 2 || of["a"] != "train" {
		t.Errorf("gangs %+v, pending %v", gangs, of)
	}
}

// TestAMemberThatKubeSchedulerFailedOnIsNotBound, nor does it ask, where there is a Node.
func TestAMemberThatKubeSchedulerFailedOnIsNotBound(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	failed := member(pendingPod("a"), "train")
	failed.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError
	if err := s.Observe(testNode("n1", "p1", true), podGroupOf("train", 2), failed, member(pendingPod("b"), "train")); err != nil {
		t.Fatal(err)
	}
	if gangs, of := gangsOf(s.Snapshot()); len(gangs) != 1 || gangs[0].Bound != 0 || gangs[0].Known != 2 || len(of) != 1 {
		t.Errorf("gangs %+v, pending %v", gangs, of)
	}
}

func TestAPodGroupCountsAsAnEvent(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	var woken []string
	s.OnWork(func(id string) { woken = append(woken, id) })
	upsert(s, podGroupOf("train", 4))
	upsert(s, podGroupOf("train", 4)) // its status, say
	upsert(s, podGroupOf("train", 2))
	if want := []string{"podgroup/default/train/4", "podgroup/default/train/2"}; !slices.Equal(woken, want) {
		t.Errorf("woken by %q, want %q", woken, want)
	}
}

// TestNoNodeIsHeldForPodsThatAreNotMeantForIt any more.
func TestNoNodeIsHeldForPodsThatAreNotMeantForIt(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	if err := s.Observe(testNode("n1", "p1", true), member(pendingPod("a"), "train"), pendingPod("b")); err != nil {
		t.Fatal(err)
	}
	a, b := cluster.PodRef{Namespace: "default", Name: "a", UID: "a"}, cluster.PodRef{Namespace: "default", Name: "b", UID: "b"}
	s.Assign([]cluster.PodRef{a, b}, "n1")
	s.Unassign([]cluster.PodRef{a, {Namespace: "default", Name: "unknown", UID: "unknown"}})
	snap := s.Snapshot()
	if snap.Nodes[0].Planned != 1 || snap.Pending[0].Planned != "" || snap.Pending[1].Planned != "n1" {
		t.Errorf("held for %d pods, pending %+v", snap.Nodes[0].Planned, snap.Pending)
	}
}

// TestAGangAsksWhereThereIsNoNode: kube-scheduler fails with an error then.
func TestAGangAsksWhereThereIsNoNode(t *testing.T) {
	t.Parallel()
	failed := func(p *corev1.Pod) *corev1.Pod {
		p.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError
		return p
	}
	ref := cluster.PodRef{Namespace: "default", Name: "a", UID: "a"}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		node bool
		plan bool
		want int
	}{
		"of a gang":                     {member(failed(pendingPod("a")), "train"), false, false, 1},
		"of no gang":                    {failed(pendingPod("a")), false, false, 0},
		"where there is a node":         {member(failed(pendingPod("a")), "train"), true, false, 0},
		"which was launched for it":     {member(failed(pendingPod("a")), "train"), true, true, 1},
		"which it was found too little": {member(pendingPod("a"), "train"), true, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(func() time.Time { return noon })
			woken := 0
			if c.node {
				upsert(s, testNode("n1", "p1", true))
			}
			s.OnWork(func(id string) {
				if strings.HasPrefix(id, "pod/") {
					woken++
				}
			})
			if err := s.Observe(c.pod, podGroupOf("train", 1)); err != nil {
				t.Fatal(err)
			}
			if c.plan {
				s.Assign([]cluster.PodRef{ref}, "n1")
			} else if woken != c.want {
				t.Errorf("woken %d times, want %d", woken, c.want)
			}
			snap := s.Snapshot()
			if len(snap.Pending) != c.want || s.PendingCount() != c.want {
				t.Errorf("%d pods ask, want %d", len(snap.Pending), c.want)
			}
			if len(snap.Gangs) == 1 && snap.Gangs[0].Bound != 0 {
				t.Errorf("a pod counts as bound that asks")
			}
		})
	}
}

// TestNodesOfAGangStay while it has no more pods than it needs. Of a gang with more, one node may go.
func TestNodesOfAGangStay(t *testing.T) {
	t.Parallel()
	together, basic := podGroupOf("train", 1), podGroupOf("train", 0)
	for _, g := range []*schedulingv1beta1.PodGroup{together, basic} {
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	for name, c := range map[string]struct {
		group *schedulingv1beta1.PodGroup
		held  []string
	}{
		"all are needed":         {podGroupOf("train", 3), []string{"n1", "n2"}},
		"one more than needed":   {podGroupOf("train", 2), []string{"n1"}},
		"two more than needed":   {podGroupOf("train", 1), []string{"n2"}}, // n1 may go, and then n2 not
		"all or none":            {together, []string{"n1", "n2"}},
		"it lacks pods":          {podGroupOf("train", 9), []string{"n1", "n2"}},
		"a group without a gang": {podGroupOf("train", 0), nil},
		"the same, all or none":  {basic, []string{"n1", "n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(atNoon)
			over := member(boundPod("over", "n3"), "train")
			over.Status.Phase = corev1.PodSucceeded
			if err := s.Observe(
				testNode("n1", "p1", true), testNode("n2", "p2", true), testNode("n3", "p3", true), c.group,
				member(boundPod("a", "n1"), "train"), member(boundPod("b", "n1"), "train"), member(boundPod("c", "n2"), "train"),
				over, boundPod("alone", "n3"),
			); err != nil {
				t.Fatal(err)
			}
			var held []string
			snap := s.Snapshot()
			for i := range snap.Nodes {
				if n := &snap.Nodes[i]; strings.Contains(n.DoNotDisrupt, "PodGroup default/train") {
					held = append(held, n.Name)
				}
			}
			if diff := cmp.Diff(c.held, held); diff != "" {
				t.Errorf("nodes that stay (-want +got):\n%s", diff)
			}
		})
	}
}
