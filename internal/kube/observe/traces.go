package observe

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
)

const (
	// tracedClaimsMost and tracedPodsMost bound what is followed at once; of a decision beyond them there
	// is no trace.
	tracedClaimsMost, tracedPodsMost = 2000, 100_000
	// traceLongest is for how long a trace is followed: what has not come by then is left out.
	traceLongest = time.Hour
)

// Traces follows the pods of each decision that launches nodes: a trace has the spans observe and plan, and
// of each NodeClaim launch, register, initialize and bind, which ends when the last of its pods is bound.
// Spans are handed over when they end, and never waited for. A nil *Traces follows nothing.
type Traces struct {
	tracer trace.Tracer
	// arrived is given each pod that is bound when the node that was launched for it may take pods; nil: nobody is.
	arrived func(*journal.Arrival)

	mu     sync.Mutex // protects everything below
	claims map[string]*tracedClaim
	pods   map[cluster.PodRef]*tracedClaim
}

// TracedDecision is when what was done for one decision, and what it launched.
type TracedDecision struct {
	// ID is the decision's in the journal.
	ID journal.ID
	// Observed is when the first trigger of the batch came, Planned when the solver began, Decided when it
	// had ended.
	Observed, Planned, Decided time.Time
	// Pods is how many asked for a node.
	Pods int
	Plan *plan.Plan
	// Claims are the names of the NodeClaims that were created, each with its launch.
	Claims map[string]*plan.Launch
}

// tracedBatch is one decision whose nodes are on their way.
type tracedBatch struct {
	root                       trace.Span
	id                         journal.ID
	observed, planned, decided time.Time
	// left is how many claims are still followed.
	left int
}

// context returns one whose spans are below the root.
func (b *tracedBatch) context() context.Context {
	return trace.ContextWithSpan(context.Background(), b.root)
}

// tracedClaim is one NodeClaim on its way.
type tracedClaim struct {
	batch *tracedBatch
	name  string
	about []attribute.KeyValue
	// stage is what it is in, since when.
	stage string
	since time.Time
	// launched and registered are when it had its instance, and when its Node appeared.
	launched, registered time.Time
	pods                 map[cluster.PodRef]bool // not bound yet
	bound                time.Time               // the last one; zero: none
}

// The stages of a claim, in order. Each is a span.
const (
	stageLaunch, stageRegister, stageInitialize, stageBind = "launch", "register", "initialize", "bind"
)

// NewTraces returns what hands its spans to a tracer. arrived may be nil; it must return at once.
func NewTraces(tracer trace.Tracer, arrived func(*journal.Arrival)) *Traces {
	return &Traces{tracer: tracer, arrived: arrived, claims: map[string]*tracedClaim{}, pods: map[cluster.PodRef]*tracedClaim{}}
}

// Decided begins a trace, if the decision launched anything.
func (t *Traces) Decided(d *TracedDecision) {
	if t == nil || len(d.Claims) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveUp(d.Decided)
	if len(t.claims)+len(d.Claims) > tracedClaimsMost || len(t.pods)+d.Pods > tracedPodsMost {
		return
	}
	_, root := t.tracer.Start(context.Background(), "provision", trace.WithNewRoot(), trace.WithTimestamp(d.Observed), trace.WithAttributes(
		attribute.Int("pods", d.Pods), attribute.Int("launches", len(d.Claims)), attribute.Int("placed", len(d.Plan.Assignments)), attribute.Int("refused", len(d.Plan.Refusals)),
		attribute.Float64("price_hourly", d.Plan.PriceHourly()), attribute.Float64("bound_hourly", d.Plan.BoundHourly)))
	b := &tracedBatch{root: root, id: d.ID, observed: d.Observed, planned: d.Planned, decided: d.Decided, left: len(d.Claims)}
	t.span(b, "observe", d.Observed, d.Planned)
	t.span(b, "plan", d.Planned, d.Decided)
	for name, launch := range d.Claims {
		c := &tracedClaim{
			batch: b, name: name, stage: stageLaunch, since: d.Decided, pods: make(map[cluster.PodRef]bool, len(launch.Pods)),
			about: []attribute.KeyValue{attribute.String("nodeclaim", name), attribute.String("nodepool", launch.Pool), attribute.Int("pods", len(launch.Pods))},
		}
		t.claims[name] = c
		for _, pod := range launch.Pods {
			t.leave(pod, d.Decided) // it was planned for another claim before
			c.pods[pod] = true
			t.pods[pod] = c
		}
	}
}

// span hands over a span that has ended.
func (t *Traces) span(b *tracedBatch, name string, from, to time.Time, about ...attribute.KeyValue) {
	_, s := t.tracer.Start(b.context(), name, trace.WithTimestamp(from), trace.WithAttributes(about...))
	s.End(trace.WithTimestamp(to))
}

// Launched notes that a claim has its instance.
func (t *Traces) Launched(claim string, at time.Time) {
	t.advance(claim, stageLaunch, stageRegister, at)
}

// Registered notes that the Node of a claim has appeared.
func (t *Traces) Registered(claim string, at time.Time) {
	t.advance(claim, stageRegister, stageInitialize, at)
}

// Initialized notes that the Node of a claim may take pods.
func (t *Traces) Initialized(claim string, at time.Time) {
	t.advance(claim, stageInitialize, stageBind, at)
}

// advance ends a stage of a claim.
func (t *Traces) advance(claim, from, to string, at time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.claims[claim]
	if c == nil || c.stage != from {
		return
	}
	t.span(c.batch, from, c.since, at, c.about...)
	switch from {
	case stageLaunch:
		c.launched = at
	case stageRegister:
		c.registered = at
	}
	c.stage, c.since = to, at
	if to == stageBind && len(c.pods) == 0 {
		t.end(c, at, "")
	}
}

// Bound notes that a pod, which was created at an instant, is bound, wherever that is.
func (t *Traces) Bound(pod cluster.PodRef, created, at time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.pods[pod]
	if c == nil {
		return
	}
	if c.stage == stageBind && t.arrived != nil {
		t.arrived(&journal.Arrival{
			Pod: pod, Claim: c.name, Decision: c.batch.id, Created: created, Seen: c.batch.observed, Planned: c.batch.planned, Decided: c.batch.decided,
			Launched: c.launched, Registered: c.registered, Initialized: c.since, Bound: at,
		})
	}
	c.bound = at
	t.leave(pod, at)
}

// PodGone notes that a pod was deleted.
func (t *Traces) PodGone(pod cluster.PodRef, at time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave(pod, at)
}

// leave follows a pod no longer.
func (t *Traces) leave(pod cluster.PodRef, at time.Time) {
	c := t.pods[pod]
	if c == nil {
		return
	}
	delete(t.pods, pod)
	delete(c.pods, pod)
	if c.stage == stageBind && len(c.pods) == 0 {
		t.end(c, at, "")
	}
}

// Removed notes that a claim is deleted, and why.
func (t *Traces) Removed(claim, why string, at time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.claims[claim]; c != nil {
		t.end(c, at, why)
	}
}

// giveUp ends what has taken too long.
func (t *Traces) giveUp(now time.Time) {
	for _, c := range t.claims {
		if now.Sub(c.batch.decided) > traceLongest {
			t.end(c, now, "not ended after "+traceLongest.String())
		}
	}
}

// end ends the stage of a claim, which is its last, and the trace if it was the last claim. wrong says why
// it did not come to its end; empty: it did.
func (t *Traces) end(c *tracedClaim, at time.Time, wrong string) {
	if c.stage == stageBind && wrong == "" && c.bound.After(c.since) {
		at = c.bound
	}
	_, s := t.tracer.Start(c.batch.context(), c.stage, trace.WithTimestamp(c.since), trace.WithAttributes(c.about...))
	if wrong != "" {
		s.SetStatus(codes.Error, wrong)
		c.batch.root.SetStatus(codes.Error, "a NodeClaim did not come to its end")
	}
	s.End(trace.WithTimestamp(at))
	delete(t.claims, c.name)
	for pod := range c.pods {
		delete(t.pods, pod)
	}
	if c.batch.left--; c.batch.left == 0 {
		c.batch.root.End(trace.WithTimestamp(at))
	}
}
