package mirror

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// openStore returns a store in which pod p is meant for Node n1 of claim c1, which takes
// pods since the given time; zero: not yet.
func openStore(now *time.Time, since time.Time) (*Store, *corev1.Pod) {
	s := newTestStore(func() time.Time { return *now })
	c := testClaim("c1", "id-1")
	if !since.IsZero() {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: karpenterv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		})
	}
	upsert(s, c)
	upsert(s, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host-1"}},
		Spec:       corev1.NodeSpec{ProviderID: "id-1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	p := pendingPod("p")
	upsert(s, p)
	s.Assign([]cluster.PodRef{translate.PodRef(p)}, "n1")
	return s, p
}

// TestPlannedPods are those that the failure of a launch is reported on: they are alive and have no node.
func TestPlannedPods(t *testing.T) {
	t.Parallel()
	s := newTestStore(func() time.Time { return noon })
	upsert(s, testClaim("c1", ""))
	upsert(s, testClaim("c2", ""))
	going, bound := pendingPod("going"), pendingPod("bound")
	going.DeletionTimestamp, bound.Spec.NodeName = &metav1.Time{Time: noon}, "n1"
	for _, p := range []*corev1.Pod{pendingPod("z"), pendingPod("a"), going, bound} {
		upsert(s, p)
		s.Assign([]cluster.PodRef{translate.PodRef(p)}, "c1")
	}
	other := pendingPod("other")
	upsert(s, other)
	s.Assign([]cluster.PodRef{translate.PodRef(other)}, "c2")
	var got []string
	for _, p := range s.PlannedPods("c1") {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "z"}, got); diff != "" {
		t.Errorf("pods planned for c1 (-want +got):\n%s", diff)
	}
}

// refuse has kube-scheduler say once more that it cannot bind the pod.
func refuse(s *Store, p *corev1.Pod, why string) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Conditions[0].Message = why
	upsert(s, p)
	return p
}

func TestAPodThatIsRefusedIsPlannedElsewhere(t *testing.T) {
	t.Parallel()
	now := noon
	s, p := openStore(&now, noon)
	var landed []Outcome
	s.OnOutcome(func(l Outcome) { landed = append(landed, l) })
	now = noon.Add(20 * time.Second)
	p = refuse(s, p, "0/1 nodes are available")
	if got := s.Snapshot().Pending[0]; got.Planned != "n1" {
		t.Fatalf("after 20 s it is planned for %q, want n1", got.Planned)
	}
	now = noon.Add(40 * time.Second)
	got := s.Snapshot().Pending[0]
	if got.Planned != "" || !got.Refused || got.Constraints.Terms[0][label.Hostname].Allows("host-1") || !got.Constraints.Terms[0][label.Hostname].AllowsAbsence() {
		t.Errorf("after 40 s it is planned for %q, refused %v, with terms %v", got.Planned, got.Refused, got.Constraints.Terms)
	}
	if len(got.Constraints.CountedTerms()[0]) > 0 {
		t.Errorf("what it counts for spread has changed: %v", got.Constraints.CountedTerms())
	}
	if diff := cmp.Diff([]Outcome{Refused}, landed); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	bound := p.DeepCopy()
	bound.Spec.NodeName = "n1"
	upsert(s, bound)
	if s.pods.all[p.UID].history.refusedBy != nil {
		t.Error("it is bound, and what refused it is still remembered")
	}
}

func TestAPodThatIsNotTriedKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since time.Time
		tried time.Duration
	}{
		"kube-scheduler is down":              {noon, 0},
		"it was tried before the node opened": {noon.Add(time.Hour), time.Minute},
		"the node is not initialized":         {time.Time{}, 90 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := noon
			s, p := openStore(&now, c.since)
			now = noon.Add(c.tried)
			if c.tried > 0 {
				refuse(s, p, "0/1 nodes are available")
			}
			now = noon.Add(2 * time.Hour)
			if got := s.Snapshot().Pending[0].Planned; got != "n1" {
				t.Errorf("it is planned for %q, want n1", got)
			}
		})
	}
}

// TestAPodWaitsForANodeThatIsRebooted: while a node is drained for its reboot it is ready, and kube-scheduler
// refuses to bind pods there. A drain without a bound may be waiting for the pod itself: then it goes elsewhere, also if
// kube-scheduler, which has nothing new to say of the pod, seems not to have tried it.
func TestAPodWaitsForANodeThatIsRebooted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bound, reason string
		refused       bool
		want          string
	}{
		"with a bound":                      {"5m0s", lifecycle.RebootRequested, true, "n1"},
		"without":                           {"", lifecycle.RebootRequested, true, ""},
		"without, refused before":           {"", lifecycle.RebootRequested, false, ""},
		"without, and the cloud accepts it": {"", lifecycle.RebootIssued, true, "n1"},
	} {
		now := noon
		s, p := openStore(&now, noon)
		node, claim := s.nodes.get("n1").DeepCopy(), s.nodes.claimOf("n1").object.DeepCopy()
		node.Spec.Taints = []corev1.Taint{karpenterv1.RebootingTaint()}
		meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: karpenterv1.ConditionTypeRebooting, Status: metav1.ConditionTrue, Reason: c.reason})
		if c.bound != "" {
			claim.Annotations = map[string]string{karpenterv1.RebootGraceAnnotationKey: c.bound}
		}
		upsert(s, claim)
		upsert(s, node)
		now = noon.Add(20 * time.Second)
		if c.refused {
			refuse(s, p, "0/1 nodes are available")
		}
		if got := s.Snapshot().Pending[0].Planned; got != "n1" {
			t.Errorf("%s: after 20 s it is planned for %q, want n1", name, got)
		}
		now = noon.Add(4 * time.Minute)
		if got := s.Snapshot().Pending[0].Planned; got != c.want {
			t.Errorf("%s: it is planned for %q, want %q", name, got, c.want)
		}
	}
}
