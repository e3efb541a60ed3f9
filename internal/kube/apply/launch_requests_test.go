package apply_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// scriptedCloud answers launches by function and remembers the calls.
type scriptedCloud struct {
	cloud.Provider
	answer func(cloud.LaunchRequest) cloud.LaunchResult

	mu    sync.Mutex
	calls []string
}

func (s *scriptedCloud) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	var tokens []string
	for _, r := range requests {
		tokens = append(tokens, r.Token)
	}
	s.mu.Lock()
	s.calls = append(s.calls, strings.Join(tokens, "+"))
	s.mu.Unlock()
	results := make([]cloud.LaunchResult, 0, len(requests))
	for _, r := range requests {
		results = append(results, s.answer(r))
	}
	return results
}

func launched(r cloud.LaunchRequest) cloud.LaunchResult {
	return cloud.LaunchResult{Instance: cloud.Instance{ID: "i-" + r.Token, Token: r.Token}}
}

// request requests an instance by nothing but a token.
func request(t *testing.T, o *apply.LaunchRequests, token string) {
	t.Helper()
	o.Request(t.Context(), token, "claim-"+token, func(context.Context) (cloud.LaunchRequest, error) {
		return cloud.LaunchRequest{Token: token}, nil
	})
}

func state(o *apply.LaunchRequests, token string) lifecycle.AnswerState {
	a, _ := o.Answer(token)
	return a.State
}

func TestOrdersMadeTogetherGoOutInOneCallAndOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &scriptedCloud{answer: launched}
		var answered []string
		o := &apply.LaunchRequests{Cloud: c, Now: time.Now, Answered: func(claim string) { answered = append(answered, claim) }}
		request(t, o, "a")
		synctest.Wait()
		request(t, o, "a")
		request(t, o, "b")
		if got := state(o, "b"); got != lifecycle.AnswerPending {
			t.Errorf("before the answer: %q", got)
		}
		time.Sleep(time.Second)
		request(t, o, "a") // its answer has come
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a+b"}, c.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"claim-a", "claim-b"}, answered); diff != "" {
			t.Errorf("answered (-want +got):\n%s", diff)
		}
		if a, got := o.Answer("b"); a.State != lifecycle.AnswerLaunched || got.ID != "i-b" || a.InstanceID != "i-b" {
			t.Errorf("answer to b: %+v %+v", a, got)
		}
		o.Forget("b")
		if got := state(o, "b"); got != lifecycle.AnswerNone {
			t.Errorf("forgotten: %q", got)
		}
	})
}

func TestASlowLaunchHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := &scriptedCloud{answer: func(r cloud.LaunchRequest) cloud.LaunchResult {
			if r.Token == "slow" {
				<-release
			}
			return launched(r)
		}}
		o := &apply.LaunchRequests{Cloud: c, Now: time.Now}
		request(t, o, "slow")
		time.Sleep(time.Second)
		request(t, o, "fast")
		time.Sleep(time.Second)
		if slow, fast := state(o, "slow"), state(o, "fast"); slow != lifecycle.AnswerPending || fast != lifecycle.AnswerLaunched {
			t.Errorf("slow is %q, fast is %q", slow, fast)
		}
		o.Forget("slow") // not while it is under way
		close(release)
		synctest.Wait()
		if got := state(o, "slow"); got != lifecycle.AnswerLaunched {
			t.Errorf("released: %q", got)
		}
	})
}

func TestOrdersThatFail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want lifecycle.Answer
	}{
		"nobody knows whether it worked: again, with a pause": {
			err:  errors.New("connection reset"),
			want: lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "LaunchFailed", Message: "connection reset"},
		},
		"the cloud's own reason is kept": {
			err:  &cloud.Failure{Kind: cloud.Rejected, Reason: "BadImage", Message: "no such image"},
			want: lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "BadImage", Message: "no such image"},
		},
		"no capacity": {
			err:  &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out"},
			want: lifecycle.Answer{State: lifecycle.AnswerNoCapacity, Reason: "LaunchFailed", Message: "sold out"},
		},
		"class not ready": {
			err:  &cloud.Failure{Kind: cloud.ClassNotReady, Message: "not today"},
			want: lifecycle.Answer{State: lifecycle.AnswerClassUnfit, Reason: "LaunchFailed", Message: "not today"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &scriptedCloud{answer: func(cloud.LaunchRequest) cloud.LaunchResult { return cloud.LaunchResult{Err: tt.err} }}
				o := &apply.LaunchRequests{Cloud: c, Now: time.Now}
				for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
					request(t, o, "a")
					time.Sleep(20 * time.Millisecond)
					synctest.Wait()
					tt.want.RetryAt = time.Now().Add(pause)
					got, _ := o.Answer("a")
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("answer (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

func TestShortOfferingsArePassedOn(t *testing.T) {
	t.Parallel()
	offered := []catalog.Choice{
		{Type: &catalog.Type{Name: "large"}, Offering: &catalog.Offering{Zone: "a", CapacityType: "spot"}},
		{Type: &catalog.Type{Name: "large"}, Offering: &catalog.Offering{Zone: "b", CapacityType: "spot"}},
	}
	type reported struct {
		Places []catalog.Place
		Keep   time.Duration
	}
	for name, tt := range map[string]struct {
		err  error
		want []reported
		// beside is what is short whatever became of the request
		beside []catalog.Place
	}{
		"all that was offered, for the usual time": {
			&cloud.Failure{Kind: cloud.NoCapacity},
			[]reported{{[]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}, {Type: "large", Zone: "b", CapacityType: "spot"}}, 3 * time.Minute}},
			nil,
		},
		"what the cloud names, for as long as it says": {
			&cloud.Failure{Kind: cloud.NoCapacity, Short: []catalog.Place{{Type: "large", Zone: "b", CapacityType: "spot"}}, Keep: time.Hour},
			[]reported{{[]catalog.Place{{Type: "large", Zone: "b", CapacityType: "spot"}}, time.Hour}},
			nil,
		},
		"nothing, when it was something else": {&cloud.Failure{Kind: cloud.Rejected}, nil, nil},
		"nothing, when nobody knows":          {errors.New("connection reset"), nil, nil},
		"what the cloud names beside something else": {
			&cloud.Failure{Kind: cloud.Rejected, Short: []catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}}},
			[]reported{{[]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}}, 3 * time.Minute}},
			nil,
		},
		"what the cloud names beside an instance": {
			nil,
			[]reported{{[]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}}, 3 * time.Minute}},
			[]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []reported
				c := &scriptedCloud{answer: func(cloud.LaunchRequest) cloud.LaunchResult { return cloud.LaunchResult{Err: tt.err, Short: tt.beside} }}
				o := &apply.LaunchRequests{Cloud: c, Now: time.Now, Short: func(p []catalog.Place, keep time.Duration) { got = append(got, reported{p, keep}) }}
				o.Request(t.Context(), "t", "claim", func(context.Context) (cloud.LaunchRequest, error) {
					return cloud.LaunchRequest{Token: "t", Choices: offered}, nil
				})
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnOfferingWithAnIDIsShortByIt: one with other labels at its place is not.
func TestAnOfferingWithAnIDIsShortByIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []catalog.Place
		c := &scriptedCloud{answer: func(cloud.LaunchRequest) cloud.LaunchResult {
			return cloud.LaunchResult{Err: &cloud.Failure{Kind: cloud.NoCapacity}}
		}}
		o := &apply.LaunchRequests{Cloud: c, Now: time.Now, Short: func(p []catalog.Place, _ time.Duration) { got = append(got, p...) }}
		o.Request(t.Context(), "t", "claim", func(context.Context) (cloud.LaunchRequest, error) {
			return cloud.LaunchRequest{Token: "t", Choices: []catalog.Choice{{Type: &catalog.Type{Name: "large"}, Offering: &catalog.Offering{Zone: "a", CapacityType: "spot", ID: "rack-1"}}}}, nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]catalog.Place{{Type: "large", Zone: "a", CapacityType: "spot", ID: "rack-1"}}, got); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
}

func TestARequestThatTheProviderLeavesOutFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &apply.LaunchRequests{Cloud: forgetful{}, Now: time.Now}
		request(t, o, "a")
		time.Sleep(time.Second)
		if got := state(o, "a"); got != lifecycle.AnswerFailed {
			t.Errorf("state is %q", got)
		}
	})
}

type forgetful struct{ cloud.Provider }

func (forgetful) Launch(context.Context, []cloud.LaunchRequest) []cloud.LaunchResult { return nil }

// TestALaunchFromAReservationIsReported: what is left of the reservation is another number then.
func TestALaunchFromAReservationIsReported(t *testing.T) {
	t.Parallel()
	for reservation, want := range map[string]int{"": 0, "cr-1": 1} {
		synctest.Test(t, func(t *testing.T) {
			var got []cloud.ClassRef
			c := &scriptedCloud{answer: func(cloud.LaunchRequest) cloud.LaunchResult {
				return cloud.LaunchResult{Err: &cloud.Failure{Kind: cloud.NoCapacity}}
			}}
			short := 0
			o := &apply.LaunchRequests{
				Cloud: c, Now: time.Now, Reserved: func(class cloud.ClassRef) { got = append(got, class) },
				Short: func(p []catalog.Place, _ time.Duration) { short += len(p) },
			}
			o.Request(t.Context(), "t", "claim", func(context.Context) (cloud.LaunchRequest, error) {
				return cloud.LaunchRequest{Token: "t", Class: cloud.ClassRef{Name: "default"}, Choices: []catalog.Choice{
					{Type: &catalog.Type{Name: "large"}, Offering: &catalog.Offering{Zone: "a", Reservation: reservation}},
				}}, nil
			})
			time.Sleep(time.Second)
			synctest.Wait()
			if len(got) != want || short != 1-want {
				t.Errorf("reservation %q: reported %v, and %d offerings as short", reservation, got, short)
			}
		})
	}
}
