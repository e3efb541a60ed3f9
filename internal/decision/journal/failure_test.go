package journal

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestWhyLaunchesFailed: a NodeClaim says why its launch failed, how often, and what is done next, and so do the pods that were
// planned for it; also if the answer came before the decision was handed in. After a restart they still do.
func TestWhyLaunchesFailed(t *testing.T) {
	t.Parallel()
	at := story.Now()
	later := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
	dir := t.TempDir()
	opts := Options{Dir: dir, DiskBytes: 1 << 20}
	j, _ := keep(t, opts, launched(at, []string{"a"}, []string{"p"}))
	run := func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		j.Run(ctx)
	}
	none := lifecycle.Answer{State: lifecycle.AnswerNoCapacity, Message: "no c6g.large in us-east-1a"}
	j.LaunchFailed("b", later(9), none)
	refused := lifecycle.Answer{State: lifecycle.AnswerFailed, Reason: "RequestLimitExceeded", Message: "too many requests"}
	for i := range 3 {
		refused.RetryAt = later(2 + 2*i)
		j.LaunchFailed("a", later(1+2*i), refused)
	}
	j.LaunchFailed("c", later(10), lifecycle.Answer{State: lifecycle.AnswerClassUnfit, Message: "it has no subnets"})
	run()
	if got := len(j.Explain(Subject{Name: "b"})); got != 0 {
		t.Errorf("before a decision is about it there are %d answers about claim b", got)
	}
	second := launched(later(9), []string{"b"}, []string{"p"})
	j.Add(second, j.Identify(second))
	last := seen(later(80), nil)
	j.Add(last, j.Identify(last)) // until then a decision about claim c was waited for
	run()

	deleted := "the NodeClaim is deleted, and its pods are planned again"
	want := map[string][]Say{
		"a": {{First: later(1), Last: later(5), Times: 3, Loop: "provisioning", What: "launch failed (RequestLimitExceeded)", Details: []string{"too many requests", "the launch is tried again at " + stamp(later(6))}}},
		"b": {{First: later(9), Last: later(9), Times: 1, Loop: "provisioning", What: "launch failed (no capacity)", Details: []string{none.Message, deleted}}},
		"c": {{First: later(10), Last: later(10), Times: 1, Loop: "provisioning", What: "launch failed (the node class is not ready)", Details: []string{"it has no subnets", deleted}}},
		"p": {
			{First: later(9), Last: later(9), Times: 1, Loop: "provisioning", What: "launch of claim b failed (no capacity)", Details: []string{none.Message, deleted}},
			{First: later(1), Last: later(5), Times: 3, Loop: "provisioning", What: "launch of claim a failed (RequestLimitExceeded)", Details: []string{"too many requests", "the launch is tried again at " + stamp(later(6))}},
		},
	}
	check := func(when string, explain func(Subject) []Answer) {
		t.Helper()
		for name, says := range want {
			var got []Say
			for _, a := range explain(Subject{Name: name}) {
				for _, s := range a.Says {
					if s.Decision.IsZero() {
						got = append(got, s)
					}
				}
			}
			if diff := cmp.Diff(says, got); diff != "" {
				t.Errorf("%s, of %s it is said (-want +got):\n%s", when, name, diff)
			}
		}
	}
	check("in memory", j.Explain)
	again, err := Open(j.opts)
	if err != nil {
		t.Fatal(err)
	}
	check("after a restart", again.Explain)
}

// TestManyFailuresTakeNoPlaceFromDecisions: a cloud that refuses hundreds of launches at once, with long messages, has no decision
// dropped, and what is kept is short.
func TestManyFailuresTakeNoPlaceFromDecisions(t *testing.T) {
	t.Parallel()
	at := story.Now()
	j, _ := keep(t, Options{})
	for range 2 * failuresMost {
		j.LaunchFailed("a", at.Add(time.Second), lifecycle.Answer{State: lifecycle.AnswerNoCapacity, Message: strings.Repeat("é", messageMost)})
	}
	d := launched(at, []string{"a"}, []string{"p"})
	j.Add(d, j.Identify(d))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Run(ctx)
	if len(j.kept) != 1 {
		t.Errorf("%d decisions are kept, want one", len(j.kept))
	}
	answers := j.Explain(Subject{Kind: KindClaim, Name: "a"})
	if len(answers) != 1 || len(answers[0].Says) != 2 || len(answers[0].Says[0].Details[0]) > messageMost+len("…") {
		t.Errorf("of the claim it is said %.300v", answers)
	}
}
