package interruption_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/interruption"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

const instance = "aws:///zone-a/i-1"

// TestNotices acts on notices about a node whose pod is given 20 seconds to end.
func TestNotices(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	type outcome struct {
		Deleted                bool
		ReplaceBy, Kind, Ended string
		Short                  int
		Reservation            string // that is short
		Events                 int
	}
	for name, c := range map[string]struct {
		notices []cloud.Notice
		isYoung bool
		want    outcome
	}{
		"a spot node is replaced before its drain must begin": {
			[]cloud.Notice{{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)}},
			false,
			outcome{ReplaceBy: "2026-11-01T12:01:10Z", Kind: "spot_interrupted", Short: 1, Events: 2},
		},
		"the same notice twice is one": {
			[]cloud.Notice{
				{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)},
				{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)},
			},
			false,
			outcome{ReplaceBy: "2026-11-01T12:01:10Z", Kind: "spot_interrupted", Short: 1, Events: 2},
		},
		"an interruptible reservation that is reclaimed is short, and no other": {
			[]cloud.Notice{{Kind: cloud.ReservationReclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)}},
			false,
			outcome{ReplaceBy: "2026-11-01T12:01:10Z", Kind: "capacity_reservation_interrupted", Short: 1, Reservation: "cr-1", Events: 2},
		},
		"a notice that is too late ends the claim at once": {
			[]cloud.Notice{{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(40 * time.Second)}},
			false,
			outcome{Deleted: true, Short: 1, Events: 4},
		},
		"maintenance in a week is not for now": {
			[]cloud.Notice{{Kind: cloud.MaintenanceScheduled, InstanceID: instance, Ends: now.Add(7 * 24 * time.Hour)}},
			false,
			outcome{ReplaceBy: "2026-11-08T11:59:10Z", Kind: "scheduled_change", Events: 2},
		},
		"of two ends the sooner counts": {
			[]cloud.Notice{
				{Kind: cloud.MaintenanceScheduled, InstanceID: instance, Ends: now.Add(time.Hour)},
				{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)},
				{Kind: cloud.MaintenanceScheduled, InstanceID: instance, Ends: now.Add(time.Hour)},
			},
			false,
			outcome{ReplaceBy: "2026-11-01T12:01:10Z", Kind: "spot_interrupted", Short: 1, Events: 4},
		},
		"an instance that is gone takes its claim along": {
			[]cloud.Notice{{Kind: cloud.Ended, InstanceID: instance}}, false, outcome{Deleted: true, Events: 4},
		},
		"a broken instance is not waited for": {
			[]cloud.Notice{{Kind: cloud.SystemBroken, InstanceID: instance}}, false, outcome{Deleted: true, Ended: "2026-11-01T12:00:00Z", Events: 4},
		},
		"an instance that is rebooted fails its checks": {
			[]cloud.Notice{{Kind: cloud.InstanceBroken, InstanceID: instance}}, false, outcome{},
		},
		"a recommendation is only reported": {
			[]cloud.Notice{{Kind: cloud.RebalanceRecommended, InstanceID: instance}}, false, outcome{Events: 2},
		},
		"a spot node that pods do not use yet goes at once": {
			[]cloud.Notice{{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)}},
			true,
			outcome{Deleted: true, Short: 1, Events: 4},
		},
		"maintenance in a week of one that pods do not use yet is not for now": {
			[]cloud.Notice{{Kind: cloud.MaintenanceScheduled, InstanceID: instance, Ends: now.Add(7 * 24 * time.Hour)}},
			true,
			outcome{ReplaceBy: "2026-11-08T11:59:10Z", Kind: "scheduled_change", Events: 2},
		},
		"a stranger's instance is not ours to mind": {
			[]cloud.Notice{{Kind: cloud.Ended, InstanceID: "aws:///zone-a/i-2"}}, false, outcome{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grace := int64(20)
			initialized := metav1.ConditionTrue
			if c.isYoung {
				initialized = metav1.ConditionUnknown
			}
			rebooting := metav1.ConditionFalse
			if strings.Contains(name, "is rebooted") {
				rebooting = metav1.ConditionTrue
			}
			controlled := true
			api := fakeapi.New(t,
				&karpenterv1.NodeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "claim", Finalizers: []string{"test/held"}, Labels: map[string]string{"reservation": "cr-1"}},
					Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{}},
					Status: karpenterv1.NodeClaimStatus{
						ProviderID: instance, NodeName: "node", Conditions: []metav1.Condition{
							{Type: karpenterv1.ConditionTypeInitialized, Status: initialized}, {Type: karpenterv1.ConditionTypeRebooting, Status: rebooting},
						},
					},
				},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{ProviderID: instance}},
				&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: &controlled,
					}}},
					Spec: corev1.PodSpec{NodeName: "node", TerminationGracePeriodSeconds: &grace},
				},
			).Build()
			var got outcome
			recorder := record.NewFakeRecorder(100)
			loop := &interruption.Loop{
				Client: api, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
				Events: observe.NewRecorder(recorder, func() time.Time { return now }), Metrics: observe.NewMetrics(prometheus.NewRegistry()),
				ReservationKey: "reservation",
				Short: func(places []catalog.Place, _ time.Duration) {
					got.Short += len(places)
					got.Reservation = places[0].Reservation
				},
			}
			for _, n := range c.notices {
				if err := loop.Act(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			claim := &karpenterv1.NodeClaim{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "claim"}, claim); err != nil {
				t.Fatal(err)
			}
			got.Deleted = claim.DeletionTimestamp != nil
			got.ReplaceBy = claim.Annotations[translate.ReplaceByAnnotationKey]
			got.Kind = claim.Annotations[translate.InterruptionAnnotationKey]
			got.Ended = claim.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey]
			got.Events = len(recorder.Events)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.ReplaceBy != "" && translate.Reclaimed(claim) != got.Kind {
				t.Errorf("the cloud takes the node away because of %q, want %q", translate.Reclaimed(claim), got.Kind)
			}
			if got.ReplaceBy != "" && translate.Expires(claim).Format(time.RFC3339) != got.ReplaceBy {
				t.Errorf("the claim's time is over at %s, want %s", translate.Expires(claim), got.ReplaceBy)
			}
		})
	}
}

// launches notes what it is seen of launches.
type launches struct {
	seen   []string
	answer error
}

// LaunchFailed takes note.
func (l *launches) LaunchFailed(claim *karpenterv1.NodeClaim, failure *cloud.Failure) error {
	l.seen = append(l.seen, claim.Name+" failed: "+failure.Message)
	return l.answer
}

// LaunchChanged takes note.
func (l *launches) LaunchChanged(claim *karpenterv1.NodeClaim) {
	l.seen = append(l.seen, claim.Name+" changed")
}

// TestNoticesOfLaunches: a notice about a launch that was accepted finds its claim by either ID, and is kept
// until the claim has ended or as long as it may be early.
func TestNoticesOfLaunches(t *testing.T) {
	t.Parallel()
	errEnding := errors.New("is ending")
	failed := func(id string) cloud.Notice {
		return cloud.Notice{Kind: cloud.LaunchFailed, InstanceID: id, Failure: &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}}
	}
	claim := func(name, provisional, final string) *karpenterv1.NodeClaim {
		c := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{}}}
		c.Status.ProviderID = final
		if provisional != "" {
			c.Annotations = map[string]string{translate.ProvisionalIDAnnotationKey: provisional}
		}
		return c
	}
	for name, c := range map[string]struct {
		claims []client.Object
		notice cloud.Notice
		want   []string
		err    bool
	}{
		"by its provider ID":         {[]client.Object{claim("c", "order-1", instance)}, failed(instance), []string{"c failed: sold out"}, true},
		"by its provisional ID":      {[]client.Object{claim("c", "order-1", ""), claim("d", "order-2", "")}, failed("order-2"), []string{"d failed: sold out"}, true},
		"before the answer":          {[]client.Object{claim("c", "", "")}, failed("order-1"), nil, true},
		"of nobody":                  {[]client.Object{claim("c", "order-1", instance)}, failed("order-2"), nil, false},
		"changed":                    {[]client.Object{claim("c", "order-1", "")}, cloud.Notice{Kind: cloud.LaunchChanged, InstanceID: "order-1"}, []string{"c changed"}, false},
		"changed, before the answer": {[]client.Object{claim("c", "", "")}, cloud.Notice{Kind: cloud.LaunchChanged, InstanceID: "order-1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &launches{answer: errEnding}
			loop := &interruption.Loop{Client: fakeapi.New(t, c.claims...).Build(), Now: time.Now, Log: slog.New(slog.DiscardHandler), Launches: l}
			if err := loop.Act(t.Context(), c.notice); (err != nil) != c.err {
				t.Errorf("error %v, want one: %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, l.seen); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRebalance has a recommendation be followed, because that was asked for; an
// interruption that comes later is sooner.
func TestRebalance(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{}},
		Status: karpenterv1.NodeClaimStatus{ProviderID: instance, Conditions: []metav1.Condition{{Type: karpenterv1.ConditionTypeInitialized, Status: metav1.ConditionTrue}}},
	}
	api := fakeapi.New(t, claim).Build()
	loop := &interruption.Loop{
		Client: api, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), ReplaceOnRebalance: true,
		Events: observe.NewRecorder(record.NewFakeRecorder(100), func() time.Time { return now }), Metrics: observe.NewMetrics(prometheus.NewRegistry()),
	}
	for _, c := range []struct {
		notice cloud.Notice
		by     string
		why    string
	}{
		{cloud.Notice{Kind: cloud.RebalanceRecommended, InstanceID: instance}, "2026-11-01T12:10:00Z", "rebalance_recommendation"},
		{cloud.Notice{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)}, "2026-11-01T12:01:30Z", "spot_interrupted"},
		{cloud.Notice{Kind: cloud.RebalanceRecommended, InstanceID: instance}, "2026-11-01T12:01:30Z", "spot_interrupted"},
	} {
		if err := loop.Act(t.Context(), c.notice); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		if by, why := translate.Expires(claim).Format(time.RFC3339), translate.Reclaimed(claim); by != c.by || why != c.why {
			t.Errorf("after %s it is to go by %s because of %s, want %s because of %s", c.notice.Kind, by, why, c.by, c.why)
		}
	}
}

// TestZonalShift reports a zone on the pools whose nodes are the cloud's.
func TestZonalShift(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	pool := func(name, kind string) *karpenterv1.NodePool {
		p := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: "g", Kind: kind, Name: "default"}
		return p
	}
	events := record.NewFakeRecorder(10)
	loop := &interruption.Loop{
		Client: fakeapi.New(t, pool("ours", "Ours"), pool("theirs", "Theirs")).Build(), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Kinds: []schema.GroupVersionKind{{Group: "g", Version: "v1", Kind: "Ours"}}, Events: observe.NewRecorder(events, func() time.Time { return now }),
	}
	for kind, want := range map[cloud.NoticeKind]string{
		cloud.ZoneShifted:  "Warning ZonalShiftActive Zone a is shifted away from until 2026-11-01T13:00:00Z: nothing is launched or ended there",
		cloud.ZoneRestored: "Normal ZonalShiftCleared Zone a is used again",
	} {
		if err := loop.Act(t.Context(), cloud.Notice{Kind: kind, Zone: "a", Ends: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if n := len(events.Events); n != 1 {
			t.Fatalf("%s: %d events, want one", kind, n)
		}
		if got := <-events.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

// TestEarlyNotice has a notice come before its instance is written down on its claim.
func TestEarlyNotice(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim", Finalizers: []string{"test/held"}},
		Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{}},
	}
	api := fakeapi.New(t, claim).Build()
	loop := &interruption.Loop{
		Client: api, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Events: observe.NewRecorder(record.NewFakeRecorder(100), func() time.Time { return now }), Metrics: observe.NewMetrics(prometheus.NewRegistry()),
	}
	notice := cloud.Notice{Kind: cloud.Reclaimed, InstanceID: instance, Ends: now.Add(2 * time.Minute)}
	if err := loop.Act(t.Context(), notice); err == nil {
		t.Error("an early notice was taken for done, so it is not reported again")
	}
	if err := loop.Act(t.Context(), cloud.Notice{Kind: cloud.Ended, InstanceID: instance}); err != nil {
		t.Errorf("the end of an instance without a claim: %v", err)
	}
	before := claim.DeepCopy()
	claim.Status.ProviderID = instance
	if err := api.Status().Patch(t.Context(), claim, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := loop.Act(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if claim.DeletionTimestamp == nil {
		t.Error("the notice was not acted on when it was reported again")
	}
	if err := loop.Act(t.Context(), cloud.Notice{Kind: cloud.Reclaimed, InstanceID: "aws:///zone-a/i-2", Ends: now}); err != nil {
		t.Errorf("a notice about an instance that no claim can have: %v", err)
	}
}
