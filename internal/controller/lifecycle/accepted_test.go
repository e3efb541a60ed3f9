package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// late is a cloud that accepts launches and decides about them later: what an instance is then is decided.
type late struct {
	ending
	first    cloud.Instance
	decided  cloud.Instance
	launches int
	asked    []string
	ended    []string
}

// Types returns one type.
func (*late) Types(context.Context, cloud.ClassRef) ([]*catalog.Type, error) {
	return []*catalog.Type{{
		Name: "small", Capacity: quantity.List{quantity.CPU: 4000, quantity.Pods: 10},
		Requirements: label.Requirements{label.InstanceType: label.In("small"), label.Zone: label.In("a"), label.CapacityType: label.In("spot")},
		Offerings:    []catalog.Offering{{Zone: "a", CapacityType: "spot", Available: true}},
	}}, nil
}

// Launch accepts.
func (l *late) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	l.launches += len(requests)
	return []cloud.LaunchResult{{Instance: l.first}}
}

// Get returns what was decided.
func (l *late) Get(_ context.Context, id string) (cloud.Instance, error) {
	l.asked = append(l.asked, id)
	return l.decided, nil
}

// Terminate takes note.
func (l *late) Terminate(_ context.Context, id string) error {
	l.ended = append(l.ended, id)
	return cloud.ErrNotFound
}

// lateStory is a controller, its cloud and one claim.
type lateStory struct {
	*Controller
	cloud   *late
	now     time.Time
	later   []func()
	short   []catalog.Place
	events  chan string
	metrics *prometheus.Registry
}

func newLateStory(t *testing.T, l *late) *lateStory {
	t.Helper()
	s := &lateStory{cloud: l, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), metrics: prometheus.NewRegistry()}
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c1", UID: "u1", CreationTimestamp: metav1.NewTime(s.now), Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"},
		},
		Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "default"}},
	}
	events := record.NewFakeRecorder(20)
	s.events = events.Events
	api := fakeapi.New(t, claim).Build()
	s.Controller = &Controller{
		Client: api, Launches: api, Cloud: l, Now: func() time.Time { return s.now },
		Events: observe.NewRecorder(events, time.Now), Metrics: observe.NewMetrics(s.metrics), Log: slog.New(slog.DiscardHandler),
		Short: func(places []catalog.Place, _ time.Duration) { s.short = append(s.short, places...) },
		Planned: func(claim string) []*corev1.Pod {
			return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web of " + claim}}}
		},
	}
	s.restart()
	return s
}

// restart forgets all that the controller knows.
func (s *lateStory) restart() {
	s.later = nil
	later := func(_ time.Duration, do func()) { s.later = append(s.later, do) }
	s.launches = &apply.LaunchRequests{Cloud: s.cloud, Now: s.Now, Short: s.Short, Later: later}
	s.follower = &apply.LaunchFollower{Now: s.Now, Short: s.Short, Later: later}
}

// claim returns the claim, or nil.
func (s *lateStory) claim(t *testing.T) *karpenterv1.NodeClaim {
	t.Helper()
	claim := &karpenterv1.NodeClaim{}
	err := s.Client.Get(t.Context(), client.ObjectKey{Name: "c1"}, claim)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return claim
}

// reconcile goes on until nothing is to be done at a time after the last.
func (s *lateStory) reconcile(t *testing.T, after time.Duration) {
	t.Helper()
	s.now = s.now.Add(after)
	for range 12 {
		if _, err := s.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "c1"}}); err != nil {
			t.Fatal(err)
		}
		for len(s.later) > 0 {
			do := s.later[0]
			s.later = s.later[1:]
			do()
		}
	}
}

// reported returns the events, sorted.
func (s *lateStory) reported() []string {
	close(s.events)
	var all []string
	for e := range s.events {
		all = append(all, e)
	}
	slices.Sort(all)
	return all
}

func smallLabels() map[string]string {
	return map[string]string{label.InstanceType: "small", label.Zone: "a", label.CapacityType: "spot"}
}

// TestAnIDThatComesLater: the claim has the provider ID when the cloud has one, whatever crashes meanwhile.
func TestAnIDThatComesLater(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]bool{"without a crash": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order := cloud.Instance{ID: "order-1", Token: "u1", Provisional: true, Labels: smallLabels()}
			s := newLateStory(t, &late{first: order, decided: order})
			s.reconcile(t, 0)
			claim := s.claim(t)
			launched := condition.ForNodeClaim(claim).Get(karpenterv1.ConditionTypeLaunched)
			if claim.Status.ProviderID != "" || launched.Status != metav1.ConditionUnknown || launched.Reason != "LaunchAccepted" || !strings.Contains(launched.Message, "order-1") {
				t.Errorf("accepted: provider ID %q, condition %+v", claim.Status.ProviderID, launched)
			}
			if crash {
				s.restart()
			}
			s.reconcile(t, 20*time.Second)
			s.cloud.decided = cloud.Instance{ID: "i-1", Token: "u1", Labels: smallLabels(), Capacity: quantity.List{quantity.CPU: 4000}}
			s.reconcile(t, 10*time.Second)
			claim = s.claim(t)
			if claim.Status.ProviderID != "i-1" || !condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeLaunched) || claim.Labels[label.InstanceType] != "small" || claim.Status.Capacity.Cpu().Value() != 4 {
				t.Errorf("launched: labels %v, status %+v", claim.Labels, claim.Status)
			}
			if s.cloud.launches != 1 {
				t.Errorf("launched %d times, want once", s.cloud.launches)
			}
			if diff := cmp.Diff([]string{"order-1", "order-1"}, s.cloud.asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFailureThatComesLater has the effects of one that comes at once: the offering is short, the claim goes
// with its reason, pods and dashboards say so, and what is left of the instance is terminated.
func TestAFailureThatComesLater(t *testing.T) {
	t.Parallel()
	soldOut := &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}
	provisional := cloud.Instance{ID: "order-1", Token: "u1", Provisional: true, Labels: smallLabels()}
	final := cloud.Instance{ID: "i-1", Token: "u1", Labels: smallLabels()}
	for name, c := range map[string]struct {
		first    cloud.Instance
		patience core.Patience
		crash    bool
		notice   bool
	}{
		"before the ID is known":              {first: provisional},
		"before the ID is known, and a crash": {first: provisional, crash: true},
		"after the ID is known":               {first: final, patience: core.Patience{Follow: 30 * time.Second}},
		"after the ID is known, and a crash":  {first: final, patience: core.Patience{Follow: 30 * time.Second}, crash: true},
		"by a notice, before the ID is known": {first: provisional, notice: true},
		"by a notice, after the ID is known":  {first: final, notice: true},
		"by a notice that a crash has lost":   {first: final, notice: true, crash: true, patience: core.Patience{Follow: 30 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLateStory(t, &late{first: c.first, decided: c.first})
			s.Patience = func(cloud.ClassRef) core.Patience { return c.patience }
			s.reconcile(t, 0)
			s.reconcile(t, 40*time.Second)
			if s.claim(t) == nil || len(s.short) > 0 {
				t.Fatalf("before the failure: claim %v, without capacity %v", s.claim(t), s.short)
			}
			s.cloud.decided.Failed = soldOut
			if c.notice {
				if err := s.LaunchFailed(s.claim(t), soldOut); !errors.Is(err, errEnding) {
					t.Errorf("notice: error %v, want that the claim is being ended", err)
				}
			}
			if c.crash {
				s.short = nil
				s.restart()
			}
			pause := 80 * time.Second
			if c.notice && !c.crash {
				pause = 0
			}
			s.reconcile(t, pause)
			if s.claim(t) != nil {
				t.Errorf("the claim is still there: %+v", s.claim(t))
			}
			if diff := cmp.Diff([]catalog.Place{{Type: "small", Zone: "a", CapacityType: "spot"}}, s.short); diff != "" {
				t.Errorf("without capacity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{c.first.ID}, s.cloud.ended); diff != "" {
				t.Errorf("terminated (-want +got):\n%s", diff)
			}
			counted := "disrupted_total{p insufficient_capacity graceful}"
			if !c.first.Provisional { // its labels are on the claim
				counted = "disrupted_total{spot p insufficient_capacity graceful}"
			}
			if diff := cmp.Diff(map[string]float64{counted: 1}, only(testkit.Gathered(t, s.metrics, "karpenter_nodeclaims_"), "disrupted_total")); diff != "" {
				t.Errorf("what is counted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{
				"Warning InsufficientCapacityError NodeClaim c1 nominated for this pod failed to launch: sold out",
				"Warning InsufficientCapacityError sold out",
			}, s.reported()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if s.cloud.launches != 1 {
				t.Errorf("launched %d times, want once", s.cloud.launches)
			}
		})
	}
}

// only returns the metrics of one name.
func only(all map[string]float64, name string) map[string]float64 {
	some := map[string]float64{}
	for k, v := range all {
		if strings.HasPrefix(k, name) {
			some[k] = v
		}
	}
	return some
}

// TestALaunchThatMayFailLateAvoidsWhatIsShort: the cloud would take the first offering, and fail again.
func TestALaunchThatMayFailLateAvoidsWhatIsShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		follow   time.Duration
		launches int
	}{
		"it may fail late": {30 * time.Second, 0},
		"it fails at once": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLateStory(t, &late{first: cloud.Instance{ID: "i-1", Labels: smallLabels()}})
			s.Patience = func(cloud.ClassRef) core.Patience { return core.Patience{Follow: c.follow} }
			shortages := catalog.Shortages{}
			shortages.Short(catalog.Place{Type: "small", Zone: "a", CapacityType: "spot"}, s.now, time.Hour)
			s.Available = func(types []*catalog.Type) []*catalog.Type { return shortages.Types(types, s.now) }
			s.reconcile(t, 0)
			if s.cloud.launches != c.launches {
				t.Errorf("launched %d times, want %d", s.cloud.launches, c.launches)
			}
			if left := s.claim(t) != nil; left != (c.launches > 0) {
				t.Errorf("the claim is there: %v", left)
			}
		})
	}
}

// TestARegisteredClaimIsNotEndedByALateFailure: a Node that has joined is not an instance whose launch failed.
func TestARegisteredClaimIsNotEndedByALateFailure(t *testing.T) {
	t.Parallel()
	s := newLateStory(t, &late{})
	claim := s.claim(t)
	condition.ForNodeClaim(claim).SetTrue(karpenterv1.ConditionTypeRegistered, s.now)
	if err := s.LaunchFailed(claim, &cloud.Failure{Kind: cloud.NoCapacity}); err != nil {
		t.Errorf("notice: error %v, want none", err)
	}
	if got, _ := s.follower.Answer("u1"); got.State != core.AnswerNone {
		t.Errorf("answer %+v, want none", got)
	}
}
