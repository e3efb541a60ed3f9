package mirror

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	classGroup = "karpenter.kwok.sh"
	classKind  = "KWOKNodeClass"
	classLabel = "karpenter.kwok.sh/kwoknodeclass"
)

func newTestStore(now func() time.Time) *Store {
	return NewStore(Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: now, BatchMax: 10 * time.Second,
		Manages: func(group, kind string) bool {
			return group == classGroup && (kind == classKind || kind == "kwoknodeclass")
		},
	})
}

// upsert shows the store a state of an object, as a watch does.
func upsert[T client.Object](s *Store, o T) { allKinds(s)[reflect.TypeOf(o)].upsert(o) }

// remove reports to the store that an object is gone, as a watch does.
func remove[T client.Object](s *Store, o T) { allKinds(s)[reflect.TypeOf(o)].remove(o) }

func atNoon() time.Time { return noon }

func pendingPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
}

func boundPod(name, node string) *corev1.Pod {
	p := pendingPod(name)
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	return p
}

func testClaim(name, providerID string) *karpenterv1.NodeClaim {
	return &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{karpenterv1.NodePoolLabelKey: "general"}},
		Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef: &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"},
			Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{{Key: label.InstanceType, Operator: corev1.NodeSelectorOpIn, Values: []string{"small", "big"}}},
		},
		Status: karpenterv1.NodeClaimStatus{ProviderID: providerID, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
	}
}

func testNode(name, providerID string, registered bool) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{classLabel: "default", karpenterv1.NodePoolLabelKey: "general"}},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
	}
	if registered {
		n.Labels[karpenterv1.NodeRegisteredLabelKey] = "true"
		n.Labels[karpenterv1.NodeInitializedLabelKey] = "true"
	}
	return n
}

func pendingNames(s *cluster.Snapshot) (names []string) {
	for _, p := range s.Pending {
		names = append(names, p.Name)
	}
	return names
}

func TestWhichPodsAskForANode(t *testing.T) {
	t.Parallel()
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pendingPod("p")
		change(p)
		return p
	}
	now := metav1.NewTime(noon)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		asks bool
	}{
		"unschedulable":                      {pendingPod("p"), true},
		"not looked at by the scheduler yet": {with(func(p *corev1.Pod) { p.Status.Conditions = nil }), false},
		"gated":                              {with(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }), false},
		"bound":                              {boundPod("p", "n1"), false},
		"preempting":                         {with(func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }), false},
		"nominated for a node that is not":   {with(func(p *corev1.Pod) { p.Status.NominatedNodeName = "gone" }), true},
		"terminating":                        {with(func(p *corev1.Pod) { p.DeletionTimestamp = &now }), false},
		"over":                               {with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		"of a daemon set": {with(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
		}), false},
		"a static pod's image":                 {with(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node"}} }), false},
		"another scheduler's, with our reason": {with(func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }), true},
		"one that says it wants no node of ours": {with(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: karpenterv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist}}}},
			}}}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(atNoon)
			upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
			woken := 0
			s.OnWork(func(string) { woken++ })
			upsert(s, tc.pod)
			upsert(s, tc.pod.DeepCopy())
			if got := len(s.Snapshot().Pending) == 1; got != tc.asks || s.PendingCount() > 0 != tc.asks {
				t.Errorf("asks for a node: %v, want %v", got, tc.asks)
			}
			if want := map[bool]int{true: 1}[tc.asks]; woken != want {
				t.Errorf("woke the provisioner %d times, want %d", woken, want)
			}
		})
	}
}

// TestAClaimCountsFromTheMomentItIsMade follows one claim from our memory to its Node.
func TestRoomThatTheSchedulerMakesForAPodIsKept(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	alone := s.Snapshot().Nodes[0]
	p := pendingPod("urgent")
	p.Status.NominatedNodeName = "n1"
	upsert(s, p)
	promised := s.Snapshot().Nodes[0]
	if diff := cmp.Diff(alone.Used.Plus(translate.PodRequests(p)), promised.Used); diff != "" || promised.Empty {
		t.Errorf("empty: %v; used (-want +got):\n%s", promised.Empty, diff)
	}
}

func TestAClaimCountsFromTheMomentItIsMade(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, pendingPod("web"))
	s.AssumeClaim(testClaim("c1", ""))
	s.Assign([]cluster.PodRef{{Namespace: "default", Name: "web", UID: "web"}}, "c1")
	snap := s.Snapshot()
	if len(snap.Nodes) != 1 || snap.Nodes[0].InFlight == nil || snap.Nodes[0].Planned != 1 || snap.Pending[0].Planned != "c1" {
		t.Fatalf("an assumed claim: %+v, pods %+v", snap.Nodes, snap.Pending)
	}
	if diff := cmp.Diff([]string{"big", "small"}, snap.Nodes[0].InFlight.Types); diff != "" {
		t.Errorf("types of the in-flight claim (-want +got):\n%s", diff)
	}

	upsert(s, testClaim("c1", "kwok://n1"))
	if snap = s.Snapshot(); len(snap.Nodes) != 1 || snap.Nodes[0].InFlight != nil || snap.Nodes[0].Capacity[quantity.CPU] != 4000 {
		t.Fatalf("a launched claim: %+v", snap.Nodes)
	}
	upsert(s, testNode("n1", "kwok://n1", true))
	if snap = s.Snapshot(); len(snap.Nodes) != 1 || snap.Nodes[0].Name != "n1" || snap.Nodes[0].Claim != "c1" || snap.Nodes[0].Planned != 1 {
		t.Fatalf("a claim with its node: %+v", snap.Nodes)
	}
	upsert(s, boundPod("web", "n1"))
	if n := s.Snapshot().Nodes[0]; n.Planned != 0 || n.Empty || n.Used[quantity.CPU] != 1000 || n.DoNotDisrupt != "" {
		t.Fatalf("after the pod was bound: %+v", n)
	}
}

// TestAPodThatIsBoundWhileItIsPlannedForIsThere: a plan takes a while. There may be no
// further event of pods that were bound meanwhile, and their nodes would be held for them for good.
func TestAPodThatIsBoundWhileItIsPlannedForIsThere(t *testing.T) {
	t.Parallel()
	for _, bound := range []string{"n1", "n2", "not seen yet"} {
		s := newTestStore(atNoon)
		upsert(s, testClaim("c1", "kwok://n1"))
		upsert(s, testNode("n1", "kwok://n1", true))
		upsert(s, testNode("n2", "kwok://n2", true))
		upsert(s, pendingPod("web"))
		planned := s.Snapshot().Pending[0].PodRef
		upsert(s, boundPod("web", bound))
		s.Assign([]cluster.PodRef{planned}, "n1")
		for _, n := range s.Snapshot().Nodes {
			if n.Planned != 0 {
				t.Errorf("bound to %s: %d pods are meant for %s, until %v", bound, n.Planned, n.Name, n.PlannedUntil)
			}
		}
	}
}

func TestAnAssumedClaimThatNeverShowsUpIsForgotten(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	upsert(s, pendingPod("web"))
	s.AssumeClaim(testClaim("c1", ""))
	s.Assign([]cluster.PodRef{{Namespace: "default", Name: "web", UID: "web"}}, "c1")
	now = now.Add(assumedMax + time.Second)
	if snap := s.Snapshot(); len(snap.Nodes) != 0 || snap.Pending[0].Planned != "" {
		t.Errorf("still remembered: %+v %+v", snap.Nodes, snap.Pending)
	}
}

func TestNodesThatHaveYetToJoin(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	for _, step := range []struct {
		what string
		does func()
		want int
	}{
		{"nothing", func() {}, 0},
		{"a NodeClaim is made", func() { upsert(s, testClaim("c", "")) }, 1},
		{"its instance is launched", func() { upsert(s, testClaim("c", "aws:///a/i-1")) }, 1},
		{"its Node joins", func() { upsert(s, testNode("n", "aws:///a/i-1", false)) }, 0},
		{"a Node of somebody else joins", func() { upsert(s, testNode("other", "aws:///a/i-2", true)) }, 0},
		{"another NodeClaim is made", func() { upsert(s, testClaim("d", "")) }, 1},
		{"it is being deleted", func() {
			d := testClaim("d", "")
			d.DeletionTimestamp = &metav1.Time{Time: noon}
			upsert(s, d)
		}, 0},
	} {
		if step.does(); s.JoiningCount() != step.want {
			t.Errorf("%s: %d have yet to join, want %d", step.what, s.JoiningCount(), step.want)
		}
	}
}

// TestANodeAheadOfItsClaimIsNotCountedTwice: its watch may be faster than the claim's.
func TestANodeAheadOfItsClaimIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	upsert(s, testClaim("c1", ""))
	upsert(s, testNode("n1", "kwok://n1", false))
	if snap := s.Snapshot(); len(snap.Nodes) != 1 || snap.Nodes[0].Name != "c1" {
		t.Errorf("nodes: %+v, want the claim alone", snap.Nodes)
	}
}

// TestAPodThatEndsLeavesItsRoomToARebootingNode: it is gone before the node takes pods again, so its successor
// fits there.
func TestAPodThatEndsLeavesItsRoomToARebootingNode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{karpenterv1.ConditionTypeRebooting: 1000, "Other": 2000} {
		s := newTestStore(atNoon)
		claim := testClaim("c1", "kwok://n1")
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
		upsert(s, claim)
		upsert(s, testNode("n1", "kwok://n1", true))
		upsert(s, boundPod("stays", "n1"))
		ending := boundPod("ending", "n1")
		ending.DeletionTimestamp = &metav1.Time{Time: noon}
		upsert(s, ending)
		if got := s.Snapshot().Nodes[0].Used["cpu"]; got != want {
			t.Errorf("%s: %d milli-cpus are used, want %d", name, got, want)
		}
	}
}

func TestPodsOfADeletedNodeArePlannedFor(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	deleting := testNode("n1", "kwok://n1", true)
	deleted := metav1.NewTime(noon)
	claim := testClaim("c1", "kwok://n1")
	claim.DeletionTimestamp, deleting.DeletionTimestamp = &deleted, &deleted
	upsert(s, claim)
	upsert(s, deleting)
	upsert(s, boundPod("moves", "n1"))
	held := boundPod("held", "n1")
	held.Annotations = map[string]string{karpenterv1.DoNotDisruptAnnotationKey: "true"}
	upsert(s, held)
	pinned := boundPod("pinned", "n1")
	pinned.Labels = map[string]string{"app": "db"}
	upsert(s, pinned)
	never := intstr.FromInt32(0)
	upsert(s, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &never, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	})
	// A budget may forbid all without saying so: two pods, of which 60 % must be healthy.
	both := boundPod("counted", "n1")
	both.Labels = map[string]string{"app": "two"}
	upsert(s, both)
	most := intstr.FromString("60%")
	upsert(s, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &most, Selector: &metav1.LabelSelector{MatchLabels: both.Labels}},
		Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 2, DesiredHealthy: 2, CurrentHealthy: 2},
	})
	// A held pod that is ending all the same has a successor, which will want a node.
	ending := boundPod("ending", "n1")
	ending.Annotations, ending.DeletionTimestamp = held.Annotations, &deleted
	ending.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet"}}
	upsert(s, ending)
	daemon := boundPod("daemon", "n1")
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	upsert(s, daemon)
	if diff := cmp.Diff([]string{"ending", "moves"}, pendingNames(s.Snapshot())); diff != "" {
		t.Errorf("pods that will want another node (-want +got):\n%s", diff)
	}
	// Soon they will be ended by force; a minute to end is the held one's own.
	minute := int64(60)
	held = held.DeepCopy()
	held.Spec.TerminationGracePeriodSeconds = &minute
	upsert(s, held)
	for left, want := range map[time.Duration][]string{
		3*time.Minute + time.Second: {"ending", "moves"},
		3*time.Minute - time.Second: {"ending", "held", "moves"},
		2*time.Minute - time.Second: {"counted", "ending", "held", "moves", "pinned"},
	} {
		claim = claim.DeepCopy()
		claim.Annotations = map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: noon.Add(left).Format(time.RFC3339)}
		upsert(s, claim)
		if diff := cmp.Diff(want, pendingNames(s.Snapshot())); diff != "" {
			t.Errorf("pods that will want another node, %s before the deadline (-want +got):\n%s", left, diff)
		}
	}
}

// TestAPodOfAnyPriorityKeepsItsNodeFromBeingEmpty: neither a low priority nor a low
// deletion cost makes a pod nobody.
func TestAPodOfAnyPriorityKeepsItsNodeFromBeingEmpty(t *testing.T) {
	t.Parallel()
	lowest := int32(-1 << 31)
	humble := boundPod("humble", "n1")
	humble.Spec.Priority = &lowest
	humble.Annotations = map[string]string{corev1.PodDeletionCost: "-2147483647"}
	daemon := boundPod("daemon", "n1")
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
	for _, c := range []struct {
		pod   *corev1.Pod
		empty bool
	}{{humble, false}, {daemon, true}} {
		s := newTestStore(atNoon)
		upsert(s, testNode("n1", "kwok://n1", true))
		upsert(s, c.pod)
		if n := s.Snapshot().Nodes[0]; n.Empty != c.empty {
			t.Errorf("with pod %s it is empty: %t, want %t", c.pod.Name, n.Empty, c.empty)
		}
	}
}

// TestTheCostOfAPodIsReadAndReported: what cannot be read is reported when it is first seen, and
// again when it is another.
func TestTheCostOfAPodIsReadAndReported(t *testing.T) {
	t.Parallel()
	var reported []string
	s := newTestStore(atNoon)
	s.opts.Unread = func(p *corev1.Pod, why string) { reported = append(reported, p.Name+": "+why) }
	upsert(s, testNode("n1", "kwok://n1", true))
	for i, c := range []struct {
		cost    string
		managed bool
		want    float64
		reports int
	}{{"7", false, 7, 0}, {"much", false, 0, 1}, {"much", false, 0, 1}, {"more", false, 0, 2}, {"8", false, 8, 2}, {"9", true, 0, 2}} {
		s.opts.DeletionCosts = c.managed
		p := boundPod("web", "n1")
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
		p.Annotations = map[string]string{corev1.PodDeletionCost: c.cost}
		upsert(s, p)
		if got := s.Snapshot().Nodes[0].Reschedulable[0].DeletionCost; got != c.want || len(reported) != c.reports {
			t.Errorf("%d: %s costs %v, want %v; reported %v", i, c.cost, got, c.want, reported)
		}
	}
}

func TestDaemonsAreSeenAsAdmissionMadeThem(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "logs", UID: "ds"}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}}}}
	upsert(s, ds)
	if got := s.Snapshot().Daemons[0].Constraints.Requests[quantity.CPU]; got != 200 {
		t.Errorf("requests of a template with limits alone: %dm cpu, want 200m", got)
	}
	live := boundPod("logs-1", "n1")
	live.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "logs", UID: "ds"}}
	upsert(s, live)
	if got := s.Snapshot().Daemons[0].Constraints.Requests[quantity.CPU]; got != 1000 {
		t.Errorf("requests of a live pod: %dm cpu, want 1000m", got)
	}
}

// TestDaemonsThatClaimDevicesAreNotOnEveryNode: their pods run where the devices are.
func TestDaemonsThatClaimDevicesAreNotOnEveryNode(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gpus", UID: "ds"}}
	ds.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	upsert(s, ds)
	if got := s.Snapshot().Daemons; len(got) > 0 {
		t.Errorf("every node would carry %v", got)
	}
}

// TestNodesOfAStaticPoolDoNotExpire: nothing would launch another. The cloud may take one away
// though, also one that would have expired before.
func TestNodesOfAStaticPoolDoNotExpire(t *testing.T) {
	t.Parallel()
	by := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		replicas  *int64
		reclaimed bool
		want      time.Time
	}{
		"another pool":                     {nil, false, noon.Add(-time.Hour)},
		"a static pool":                    {new(int64(1)), false, time.Time{}},
		"a static pool, and it is claimed": {new(int64(1)), true, by},
	} {
		s := newTestStore(atNoon)
		np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: karpenterv1.NodePoolSpec{Replicas: c.replicas}}
		np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
		nc := testClaim("c1", "kwok://c1")
		nc.Labels = map[string]string{karpenterv1.NodePoolLabelKey: "general"}
		nc.CreationTimestamp, nc.Spec.ExpireAfter.Duration = metav1.NewTime(noon.Add(-2*time.Hour)), new(time.Hour)
		if c.reclaimed {
			nc.Annotations = map[string]string{translate.ReplaceByAnnotationKey: by.Format(time.RFC3339), translate.InterruptionAnnotationKey: "spot_interrupted"}
		}
		upsert(s, nc)
		s.Snapshot() // made before the pool is seen
		upsert(s, np)
		if n := s.Snapshot().Nodes[0]; !n.Expires.Equal(c.want) || n.Reclaimed != "" != c.reclaimed {
			t.Errorf("%s: it expires at %s, want %s; reclaimed %q", name, n.Expires, c.want, n.Reclaimed)
		}
	}
}

// TestADaemonThatNothingHoldsIsNotCounted checks that a DaemonSet that asks for more than any node
// has leaves room on nodes to others.
func TestADaemonThatNothingHoldsIsNotCounted(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	for name, memory := range map[string]string{"absurd": "8Ei", "large": "16Gi", "small": "1Gi"} {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, UID: types.UID(name)}}
		ds.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}}}
		upsert(s, ds)
	}
	seen := func() (names []string) {
		for _, d := range s.Snapshot().Daemons {
			names = append(names, d.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"tenant/absurd", "tenant/large", "tenant/small"}, seen()); diff != "" {
		t.Errorf("while no types are known (-want +got):\n%s", diff)
	}
	ref := &karpenterv1.NodeClassReference{Group: classGroup, Kind: classKind, Name: "default"}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	np.Spec.Template.Spec.NodeClassRef = ref
	upsert(s, np)
	var sizes []*catalog.Type
	for name, gib := range map[string]int64{"a": 8, "b": 32} {
		sizes = append(sizes, &catalog.Type{Name: name, Capacity: quantity.List{quantity.CPU: 4000, quantity.Memory: gib << 30, quantity.Pods: 110}})
	}
	s.Pools().SetTypes(cloud.ClassRef{Group: classGroup, Kind: classKind, Name: "default"}, sizes, nil)
	if diff := cmp.Diff([]string{"tenant/large", "tenant/small"}, seen()); diff != "" {
		t.Errorf("with types of 8 and 32 GiB (-want +got):\n%s", diff)
	}
}

// TestConstraintsGoWithTheirLastPod: the memory of pod constraints is bounded by the pods there are.
func TestConstraintsGoWithTheirLastPod(t *testing.T) {
	t.Parallel()
	s := newTestStore(atNoon)
	a, b := pendingPod("a"), pendingPod("b")
	upsert(s, a)
	upsert(s, b)
	snap := s.Snapshot()
	if snap.Pending[0].Constraints != snap.Pending[1].Constraints {
		t.Error("two pods that are alike have constraints of their own")
	}
	remove(s, a)
	upsert(s, b)
	remove(s, b)
	remove(s, b)
	if len(s.pods.constraintSets)+len(s.pods.all)+len(s.pods.byNode) != 0 {
		t.Errorf("left behind: %d constraints, %d pods, %d nodes", len(s.pods.constraintSets), len(s.pods.all), len(s.pods.byNode))
	}
}

// TestOrderOfEventsDoesNotMatter: the same objects in any order, some of them sent
// twice, make the same snapshot.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var events []func(*Store)
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			id := fmt.Sprintf("kwok://n%d", i)
			claim, node := testClaim(fmt.Sprintf("c%d", i), id), testNode(fmt.Sprintf("n%d", i), id, rapid.Bool().Draw(t, "registered"))
			events = append(events, func(s *Store) { upsert(s, claim) }, func(s *Store) { upsert(s, node) })
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			pod := pendingPod(fmt.Sprintf("p%d", i))
			if node := rapid.IntRange(-1, 4).Draw(t, "on"); node >= 0 {
				pod = boundPod(pod.Name, fmt.Sprintf("n%d", node))
			}
			if name := rapid.SampledFrom([]string{"", "d1", "d2", "d3"}).Draw(t, "claim"); name != "" {
				pod = withClaims(pod, name)
			}
			events = append(events, func(s *Store) { upsert(s, pod) })
		}
		d1, d2 := waitingPVC("d1"), waitingPVC("d2")
		d1.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		events = append(events, func(s *Store) { upsert(s, d1) }, func(s *Store) { upsert(s, d2) },
			func(s *Store) { upsert(s, zonalClass("a", "b")) })
		once, again := newTestStore(atNoon), newTestStore(atNoon)
		for _, e := range events {
			e(once)
		}
		for _, e := range rapid.Permutation(append(events, rapid.SliceOfN(rapid.SampledFrom(events), 0, 5).Draw(t, "repeats")...)).Draw(t, "order") {
			e(again)
		}
		if diff := cmp.Diff(once.Snapshot(), again.Snapshot(), cmp.AllowUnexported(label.Requirement{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("another order, another snapshot (-one +other):\n%s", diff)
		}
	})
}

// TestDefaultConstraintsFollowTheirServices: a pod is spread with its siblings as soon as
// it is known who they are.
func TestDefaultConstraintsFollowTheirServices(t *testing.T) {
	t.Parallel()
	s := NewStore(Options{
		Vocabulary: translate.NewVocabulary(nil, nil), Now: atNoon, Manages: func(string, string) bool { return false },
		DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
	})
	pod := pendingPod("web")
	pod.Labels = map[string]string{"app": "web"}
	upsert(s, pod)
	if sh := s.Snapshot().Pending[0].Constraints; len(sh.Spread) != 0 {
		t.Errorf("spread before anybody selects it: %+v", sh.Spread)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: "svc"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	upsert(s, service)
	if sh := s.Snapshot().Pending[0].Constraints; len(sh.Spread) != 1 || !sh.Spread[0].Selector.Selects(map[string]string{"app": "web"}) {
		t.Errorf("spread with its service: %+v", sh.Spread)
	}
	remove(s, service)
	if sh := s.Snapshot().Pending[0].Constraints; len(sh.Spread) != 0 || len(s.pods.constraintSets) != 1 {
		t.Errorf("after the service went: %+v, %d constraints", sh.Spread, len(s.pods.constraintSets))
	}
}

// TestANodeIsReservedForAReplacement: the pod that comes for one that is yet to be evicted
// is another, so the node that it is meant for is held for a time, and the snapshot says until when.
func TestANodeIsReservedForAReplacement(t *testing.T) {
	t.Parallel()
	now := noon
	s := newTestStore(func() time.Time { return now })
	deleting, deleted := testNode("n1", "id-1", true), metav1.NewTime(noon)
	deleting.DeletionTimestamp = &deleted
	upsert(s, deleting)
	upsert(s, testNode("n2", "id-2", true))
	upsert(s, boundPod("web-1", "n1"))
	s.Assign([]cluster.PodRef{{Namespace: "default", Name: "web-1", UID: "web-1"}}, "n2")
	remove(s, boundPod("web-1", "n1"))
	until := s.Snapshot().Nodes[1].PlannedUntil
	if !until.After(noon) {
		t.Fatalf("it is held until %v", until)
	}
	for _, c := range []struct {
		at      time.Time
		planned int
	}{{until.Add(-time.Millisecond), 1}, {until, 0}} {
		now = c.at
		if got := s.Snapshot().Nodes[1].Planned; got != c.planned {
			t.Errorf("at %v %d pods are meant for it, want %d", c.at, got, c.planned)
		}
	}
}
