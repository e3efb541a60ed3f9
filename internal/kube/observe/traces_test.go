package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

func ref(name string) cluster.PodRef {
	return cluster.PodRef{Namespace: "default", Name: name, UID: name}
}

// decided returns a decision at a second that launches claims for pods, named "claim: pod pod".
func decided(second int, launches ...string) *TracedDecision {
	at := time.Unix(int64(second), 0)
	d := &TracedDecision{Observed: at.Add(-2 * time.Second), Planned: at.Add(-time.Second), Decided: at, Plan: &plan.Plan{}, Claims: map[string]*plan.Launch{}}
	for _, text := range launches {
		claim, pods, _ := strings.Cut(text, ":")
		launch := &plan.Launch{Pool: "general"}
		for _, pod := range strings.Fields(pods) {
			launch.Pods = append(launch.Pods, ref(pod))
			d.Pods++
		}
		d.Claims[claim] = launch
	}
	return d
}

// does is what happens to a trace.
type does func(t *Traces, second int)

func TestATraceFollowsABatchFromItsTriggerToTheLastBind(t *testing.T) {
	t.Parallel()
	decides := func(launches ...string) does { return func(t *Traces, s int) { t.Decided(decided(s, launches...)) } }
	launched := func(c string) does { return func(t *Traces, s int) { t.Launched(c, time.Unix(int64(s), 0)) } }
	registered := func(c string) does { return func(t *Traces, s int) { t.Registered(c, time.Unix(int64(s), 0)) } }
	initialized := func(c string) does { return func(t *Traces, s int) { t.Initialized(c, time.Unix(int64(s), 0)) } }
	bound := func(p string) does {
		return func(t *Traces, s int) { t.Bound(ref(p), time.Unix(5, 0), time.Unix(int64(s), 0)) }
	}
	gone := func(p string) does { return func(t *Traces, s int) { t.PodGone(ref(p), time.Unix(int64(s), 0)) } }
	removed := func(c string) does {
		return func(t *Traces, s int) { t.Removed(c, "insufficient_capacity", time.Unix(int64(s), 0)) }
	}
	nothing := func(*Traces, int) {}
	// Each thing happens a second after the one before, the first at second 10.
	for name, c := range map[string]struct {
		does []does
		want []string
	}{
		"a node for two pods": {
			[]does{decides("c:a b"), launched("c"), registered("c"), initialized("c"), bound("a"), bound("b")},
			[]string{"observe 8-9", "plan 9-10", "launch 10-11", "register 11-12", "initialize 12-13", "bind 13-15", "provision 8-15"},
		},
		"the trace ends with the last of its claims": {
			[]does{decides("c:a", "d:b"), launched("c"), registered("c"), initialized("c"), bound("a"), launched("d"), removed("d")},
			[]string{"observe 8-9", "plan 9-10", "launch 10-11", "register 11-12", "initialize 12-13", "bind 13-14", "launch 10-15", "register 15-16 insufficient_capacity", "provision 8-16 a NodeClaim did not come to its end"},
		},
		"pods that are bound early do not keep it": {
			[]does{decides("c:a"), launched("c"), registered("c"), bound("a"), initialized("c")},
			[]string{"observe 8-9", "plan 9-10", "launch 10-11", "register 11-12", "initialize 12-14", "bind 14-14", "provision 8-14"},
		},
		"nor do those that are gone": {
			[]does{decides("c:a b"), launched("c"), registered("c"), initialized("c"), bound("a"), gone("b")},
			[]string{"observe 8-9", "plan 9-10", "launch 10-11", "register 11-12", "initialize 12-13", "bind 13-14", "provision 8-14"},
		},
		"nor those that got another node": {
			[]does{decides("c:a"), launched("c"), registered("c"), initialized("c"), decides("d:a")},
			[]string{"observe 8-9", "plan 9-10", "launch 10-11", "register 11-12", "initialize 12-13", "observe 12-13", "plan 13-14", "bind 13-14", "provision 8-14"},
		},
		"what is said twice counts once":    {[]does{decides("c:a"), launched("c"), launched("c")}, []string{"observe 8-9", "plan 9-10", "launch 10-11"}},
		"what nobody launched is nothing":   {[]does{launched("x"), bound("y"), removed("x"), decides()}, nil},
		"for an hour it is waited, no more": {append(append([]does{decides("c:a")}, slices.Repeat([]does{nothing}, 3600)...), decides("d:b")), []string{"observe 8-9", "plan 9-10", "launch 10-3611 not ended after 1h0m0s", "provision 8-3611 a NodeClaim did not come to its end", "observe 3609-3610", "plan 3610-3611"}},
	} {
		spans := tracetest.NewSpanRecorder()
		traces := NewTraces(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer(""), nil)
		for i, do := range c.does {
			do(traces, 10+i)
		}
		var got []string
		for _, s := range spans.Ended() {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d-%d %s", s.Name(), s.StartTime().Unix(), s.EndTime().Unix(), s.Status().Description)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhenAPodArrived: a pod counts that is bound to a node that may take pods, and no other.
func TestWhenAPodArrived(t *testing.T) {
	t.Parallel()
	var got []*journal.Arrival
	traces := NewTraces(noop.NewTracerProvider().Tracer(""), func(a *journal.Arrival) { got = append(got, a) })
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	d := decided(10, "c:a b elsewhere")
	d.ID = journal.ID{Number: 7}
	traces.Decided(d)
	traces.Launched("c", at(12))
	traces.Bound(ref("elsewhere"), at(5), at(13)) // its node is not there yet
	traces.Registered("c", at(40))
	traces.Initialized("c", at(43))
	traces.Bound(ref("a"), at(5), at(44))
	traces.Bound(ref("a"), at(5), at(45)) // said twice
	want := []*journal.Arrival{{
		Pod: ref("a"), Claim: "c", Decision: journal.ID{Number: 7}, Created: at(5), Seen: at(8), Planned: at(9), Decided: at(10),
		Launched: at(12), Registered: at(40), Initialized: at(43), Bound: at(44),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
}

// stuck is an exporter that never returns.
type stuck struct{ released chan struct{} }

func (s stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-s.released
	return nil
}

func (stuck) Shutdown(context.Context) error { return nil }

// TestTracesWaitForNobodyAndHaveABound makes decisions whose spans nobody takes. The test does not end if
// anything waits.
func TestTracesWaitForNobodyAndHaveABound(t *testing.T) {
	t.Parallel()
	exporter := stuck{make(chan struct{})}
	defer close(exporter.released)
	traces := NewTraces(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter)).Tracer(""), nil)
	for i := range 4 * tracedClaimsMost {
		traces.Decided(decided(i/10, fmt.Sprintf("claim-%d: pod-%d", i, i)))
	}
	if len(traces.claims) > tracedClaimsMost || len(traces.pods) > tracedPodsMost {
		t.Errorf("%d claims and %d pods are followed", len(traces.claims), len(traces.pods))
	}
	var none *Traces
	none.Decided(decided(1, "c:a"))
	none.Launched("c", time.Time{})
	none.Bound(ref("a"), time.Time{}, time.Time{})
	none.PodGone(ref("a"), time.Time{})
	none.Removed("c", "", time.Time{})
}
