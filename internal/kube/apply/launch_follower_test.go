package apply_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// small are the labels of an instance, and smallPlace is its offering.
func small() map[string]string {
	return map[string]string{label.InstanceType: "small", label.Zone: "a", label.CapacityType: "spot"}
}

// TestWhatBecomesOfAcceptedLaunches: each answer of the cloud, one minute after the claim was created.
func TestWhatBecomesOfAcceptedLaunches(t *testing.T) {
	t.Parallel()
	smallPlace := catalog.Place{Type: "small", Zone: "a", CapacityType: "spot"}
	otherPlace := catalog.Place{Type: "large", Zone: "b", CapacityType: "on-demand"}
	type short struct {
		Places []catalog.Place
		Keep   time.Duration
	}
	for name, c := range map[string]struct {
		instance cloud.Instance
		err      error
		labels   map[string]string // of the claim
		want     lifecycle.Answer
		short    []short
	}{
		"not decided": {
			instance: cloud.Instance{ID: "order-1", Provisional: true},
			want:     lifecycle.Answer{State: lifecycle.AnswerAccepted, InstanceID: "order-1"},
		},
		"launched": {
			instance: cloud.Instance{ID: "i-1"},
			want:     lifecycle.Answer{State: lifecycle.AnswerLaunched, InstanceID: "i-1"},
		},
		"no capacity at the offering that was accepted": {
			instance: cloud.Instance{ID: "order-1", Labels: small(), Failed: &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}},
			want:     lifecycle.Answer{State: lifecycle.AnswerNoCapacity, InstanceID: "order-1", Reason: "LaunchFailed", Message: "sold out"},
			short:    []short{{[]catalog.Place{smallPlace}, 13 * time.Minute}},
		},
		"no capacity at the offering that the claim says": {
			instance: cloud.Instance{ID: "i-1", Failed: &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}},
			labels:   small(),
			want:     lifecycle.Answer{State: lifecycle.AnswerNoCapacity, InstanceID: "i-1", Reason: "LaunchFailed", Message: "sold out"},
			short:    []short{{[]catalog.Place{smallPlace}, 13 * time.Minute}},
		},
		"no capacity in places and for a time that the cloud says": {
			instance: cloud.Instance{ID: "i-1", Labels: small(), Failed: &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out", Short: []catalog.Place{otherPlace}, Keep: time.Minute}},
			want:     lifecycle.Answer{State: lifecycle.AnswerNoCapacity, InstanceID: "i-1", Reason: "LaunchFailed", Message: "sold out"},
			short:    []short{{[]catalog.Place{otherPlace}, time.Minute}},
		},
		"class not ready": {
			instance: cloud.Instance{ID: "i-1", Failed: &cloud.Failure{Kind: cloud.ClassNotReady, Message: "no subnet"}},
			want:     lifecycle.Answer{State: lifecycle.AnswerClassUnfit, InstanceID: "i-1", Reason: "LaunchFailed", Message: "no subnet"},
		},
		"refused": {
			instance: cloud.Instance{ID: "i-1", Failed: &cloud.Failure{Kind: cloud.Rejected, Reason: "BadImage", Message: "no such image"}},
			want:     lifecycle.Answer{State: lifecycle.AnswerRefused, InstanceID: "i-1", Reason: "BadImage", Message: "no such image"},
		},
		"gone": {
			err:  cloud.ErrNotFound,
			want: lifecycle.Answer{State: lifecycle.AnswerRefused, Reason: "InstanceGone", Message: "the cloud has no such instance any more"},
		},
		"no answer": {
			err:  errors.New("connection reset"),
			want: lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "LaunchFailed", Message: "connection reset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var shorts []short
				f := &apply.LaunchFollower{Now: time.Now, Short: func(places []catalog.Place, keep time.Duration) { shorts = append(shorts, short{places, keep}) }}
				launch := apply.FollowedLaunch{Token: "a", Claim: "claim-a", Created: time.Now(), Labels: c.labels}
				time.Sleep(time.Minute)
				asked := time.Now()
				f.Ask(t.Context(), launch, 20*time.Second, func(context.Context) (cloud.Instance, error) { return c.instance, c.err })
				if got, _ := f.Answer("a"); got.State != lifecycle.AnswerPending || !got.AskedAt.Equal(asked) {
					t.Errorf("before the answer: %+v", got)
				}
				synctest.Wait()
				got, instance := f.Answer("a")
				c.want.AskedAt, c.want.RetryAt = asked, asked.Add(20*time.Second)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.instance, instance); diff != "" {
					t.Errorf("instance (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.short, shorts); diff != "" {
					t.Errorf("offerings without capacity (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestALaunchThatHasFailedIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var answered []string
		shorts, asked := 0, 0
		f := &apply.LaunchFollower{Now: time.Now, Short: func([]catalog.Place, time.Duration) { shorts++ }}
		f.OnAnswer(func(claim string) { answered = append(answered, claim) })
		launch := apply.FollowedLaunch{Token: "a", Claim: "claim-a", Created: time.Now(), Labels: small()}
		get := func(context.Context) (cloud.Instance, error) {
			asked++
			time.Sleep(time.Second)
			return cloud.Instance{ID: "order-1", Provisional: true}, nil
		}
		f.Ask(t.Context(), launch, time.Minute, get)
		f.Ask(t.Context(), launch, time.Minute, get) // is under way
		for range 3 {                                // the same notice
			f.Failed(launch, &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"})
		}
		time.Sleep(2 * time.Second) // an answer of before comes after it
		f.Ask(t.Context(), launch, time.Minute, get)
		f.Changed(launch)
		synctest.Wait()
		if got, _ := f.Answer("a"); got.State != lifecycle.AnswerNoCapacity {
			t.Errorf("answer %+v, want no capacity", got)
		}
		if shorts != 1 || asked != 1 {
			t.Errorf("reported %d times, asked %d times, want once each", shorts, asked)
		}
		if diff := cmp.Diff([]string{"claim-a", "claim-a"}, answered); diff != "" { // by the notice, and by Changed
			t.Errorf("answered (-want +got):\n%s", diff)
		}
		f.Forget("a")
		if got, _ := f.Answer("a"); got.State != lifecycle.AnswerNone {
			t.Errorf("forgotten: %+v", got)
		}
	})
}

// TestANoticeThatDoesNotSayWhere: the cloud is asked which offering it was, and believed if it has forgotten.
func TestANoticeThatDoesNotSayWhere(t *testing.T) {
	t.Parallel()
	soldOut := &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}
	for name, c := range map[string]struct {
		instance cloud.Instance
		err      error
		short    int
	}{
		"the cloud knows":         {cloud.Instance{ID: "order-1", Labels: small(), Failed: soldOut}, nil, 1},
		"the cloud has forgotten": {cloud.Instance{}, cloud.ErrNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				short := 0
				f := &apply.LaunchFollower{Now: time.Now, Short: func([]catalog.Place, time.Duration) { short++ }}
				launch := apply.FollowedLaunch{Token: "a", Claim: "claim-a", Created: time.Now()}
				f.Failed(launch, soldOut)
				if got, _ := f.Answer("a"); got.State != lifecycle.AnswerAccepted || got.RetryAt.After(time.Now()) {
					t.Errorf("after the notice: %+v, want that the cloud is asked now", got)
				}
				f.Ask(t.Context(), launch, time.Minute, func(context.Context) (cloud.Instance, error) { return c.instance, c.err })
				synctest.Wait()
				if got, _ := f.Answer("a"); got.State != lifecycle.AnswerNoCapacity || short != c.short {
					t.Errorf("answer %+v, %d offerings without capacity, want %d", got, short, c.short)
				}
			})
		})
	}
}

func TestANoticeHasTheCloudAskedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &apply.LaunchFollower{Now: time.Now}
		launch := apply.FollowedLaunch{Token: "a", Claim: "claim-a", Created: time.Now()}
		f.Ask(t.Context(), launch, time.Hour, func(context.Context) (cloud.Instance, error) {
			return cloud.Instance{ID: "order-1", Provisional: true}, nil
		})
		synctest.Wait()
		f.Changed(launch)
		if got, _ := f.Answer("a"); got.RetryAt.After(time.Now()) {
			t.Errorf("asked again at %s, want now", got.RetryAt)
		}
	})
}

func TestAcceptedLaunchesAreAnsweredAsSuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		instance := cloud.Instance{ID: "order-1", Provisional: true}
		c := &scriptedCloud{answer: func(cloud.LaunchRequest) cloud.LaunchResult { return cloud.LaunchResult{Instance: instance} }}
		short := 0
		o := &apply.LaunchRequests{Cloud: c, Now: time.Now, Short: func([]catalog.Place, time.Duration) { short++ }}
		request(t, o, "a")
		time.Sleep(time.Second)
		if a, _ := o.Answer("a"); a.State != lifecycle.AnswerAccepted || a.InstanceID != "order-1" {
			t.Errorf("answer %+v, want accepted", a)
		}
		// After a restart the launch is asked for again, and has failed since.
		instance.Failed, instance.Labels = &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"}, small()
		o = &apply.LaunchRequests{Cloud: c, Now: time.Now, Short: o.Short}
		request(t, o, "a")
		time.Sleep(time.Second)
		if a, _ := o.Answer("a"); a.State != lifecycle.AnswerNoCapacity || a.InstanceID != "order-1" || a.Message != "sold out" || short != 1 {
			t.Errorf("answer %+v, %d offerings without capacity", a, short)
		}
	})
}
