package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// The states of a node: what it is doing, in a word.
const (
	StateStarting    = "starting"    // no pods yet: its instance or its Node is still to come
	StateTerminating = "terminating" // it is deleted, and drained
	StateDisrupted   = "disrupted"   // it is marked, and waits for its replacement
	StateRebooting   = "rebooting"   // its instance is restarted
	StateNotReady    = "notReady"    // its kubelet does not answer
	StateDue         = "due"         // it is drifted, unhealthy, due to expire or about to be taken away, and still there
	StateStays       = "stays"       // nothing is to be done about it
	StateForeign     = "foreign"     // it has no NodeClaim
)

// Cause is what keeps a node, as blockers are grouped. Object is the one thing that does; empty: no single
// one.
type Cause struct {
	Reason verdict.Reason `json:"reason"`
	Kind   string         `json:"kind,omitempty"`
	Object string         `json:"object,omitempty"`
}

// Status is what a node is doing, and why it is not removed.
type Status struct {
	State string `json:"state"`
	// Text says why, in a sentence without a full stop.
	Text string `json:"text,omitempty"`
	// Cause is what keeps a node of ours; its Reason is empty if the node is on its way.
	Cause Cause `json:"cause,omitzero"`
	// Until is when that is over, if time alone ends it. When is what ends it otherwise.
	Until time.Time `json:"until,omitzero"`
	When  string    `json:"when,omitempty"`
}

// reader answers about the nodes of one State; what answers share is worked out once.
type reader struct {
	*State
	prices    *cluster.Prices
	workloads *workloads
	ledger    *budget.Ledger
	holds     *disrupt.Holds
	// opens is when budgets open, as far as that was asked.
	opens map[poolReason]time.Time
}

func newReader(s *State) *reader {
	return &reader{State: s, prices: cluster.NewPrices(s.Snapshot), workloads: newWorkloads(s.Snapshot), ledger: budget.Open(s.Snapshot), holds: disrupt.NewHolds(s.Snapshot), opens: map[poolReason]time.Time{}}
}

// status returns what a node is doing.
func (r *reader) status(n *cluster.Node) Status {
	switch {
	case n.Claim == "":
		return Status{State: StateForeign, Text: "it has no NodeClaim: Dovetail does not remove it"}
	case n.Deleting:
		return r.terminating(n)
	case n.InFlight != nil:
		return Status{State: StateStarting, Text: "its instance is asked for", When: "when the cloud answers"}
	case n.Rebooting:
		return Status{State: StateRebooting, Text: "its instance is restarted", When: "when its Node is ready again"}
	case !n.Initialized:
		return Status{State: StateStarting, Text: "its instance is launched, its Node is not initialized", When: "when its Node is ready and its startup taints are gone"}
	case n.DisruptionReason != "":
		return r.going(n)
	case !n.Ready && len(n.Ailments) == 0:
		s := r.stays(n)
		s.State, s.Text = StateNotReady, "its Node is not ready"
		return s
	}
	if would := r.would(n); would != "" {
		return Status{State: StateDue, Text: would, When: ObservedWhen}
	}
	if why, reason := r.due(n); reason != "" {
		return r.dueStatus(n, why, reason)
	}
	return r.stays(n)
}

// ObservedWhen is when a controller that only observes does what it would do.
const ObservedWhen = "never: this controller only observes"

// would says what a controller that only observes would do with a node; empty: it would not begin anything.
func (r *reader) would(n *cluster.Node) string {
	if !r.Observes {
		return ""
	}
	for i := range r.Commands {
		c := &r.Commands[i]
		if !slices.ContainsFunc(c.Remove, func(removed plan.Removal) bool { return removed.Node == n.Name }) {
			continue
		}
		if len(c.Launch) > 0 {
			return fmt.Sprintf("would be replaced (%s)", c.Reason)
		}
		return fmt.Sprintf("would be removed (%s)", c.Reason)
	}
	return ""
}

// terminating says of a node that is deleted what it waits for.
func (r *reader) terminating(n *cluster.Node) Status {
	s := Status{State: StateTerminating, Until: n.Deadline}
	switch {
	case n.Ending:
		s.Text, s.When = "it is drained, and its instance is terminated", "when the cloud reports that the instance is gone"
	case n.Empty:
		s.Text, s.When = "it is drained", "when its volumes are detached"
	default:
		s.Text, s.When = "it is drained", "when its pods are gone, as far as their PodDisruptionBudgets allow evictions"
	}
	if n.DisruptionReason != "" {
		s.Text += " (" + n.DisruptionReason + ")"
	}
	return s
}

// going says of a node that a command removes what the command waits for.
func (r *reader) going(n *cluster.Node) Status {
	missing := 0
	for i := range r.Snapshot.Nodes {
		if o := &r.Snapshot.Nodes[i]; n.Step != "" && o.Replaces == n.Step && !o.Initialized && !o.Deleting {
			missing++
		}
	}
	s := Status{State: StateDisrupted, Text: fmt.Sprintf("marked for disruption (%s)", n.DisruptionReason), When: "at the next decision"}
	if missing > 0 {
		s.When = fmt.Sprintf("when %s that %s it %s initialized", counted(missing, "node"), verb(missing, "replaces", "replace"), verb(missing, "is", "are"))
	}
	return s
}

// due returns why a node has to go, whatever it costs, and the disruption reason; none: it has not.
func (r *reader) due(n *cluster.Node) (why, reason string) {
	switch {
	case len(n.Ailments) > 0 && !n.DoNotRepair:
		return "it is unhealthy", plan.Unhealthy
	case n.Reclaimed != "":
		return fmt.Sprintf("the cloud takes it away (%s)", n.Reclaimed), plan.Interrupted
	case n.Drifted != "":
		return fmt.Sprintf("drifted (%s)", n.Drifted), plan.Drifted
	case !n.Expires.IsZero() && !r.Snapshot.At.Before(disrupt.DueAt(n)):
		return "it expires soon", plan.Expired
	}
	return "", ""
}

// dueStatus says what a node waits for that has to go.
func (r *reader) dueStatus(n *cluster.Node, why, reason string) Status {
	s := Status{State: StateDue, Text: why}
	if reason == plan.Expired || reason == plan.Interrupted {
		s.Until = n.Expires
	}
	if paused := disrupt.Paused(r.Snapshot, n, reason); !paused.IsYes() {
		return s.paused(n, paused)
	}
	hold := r.holds.Of(n)
	pods := hold.Kind == disrupt.HeldByPDB || hold.Kind == disrupt.HeldByAnnotation && n.DoNotDisruptByPods
	switch forgiven := n.HasGrace && pods; {
	case hold.Kind != disrupt.HeldByNobody && !forgiven:
		return s.held(hold)
	case r.ledger.Left(n.Pool, reason) == 0 && reason != plan.Interrupted:
		return s.budget(r, n, reason)
	}
	if cooling, ok := r.cooldown(n, s); ok {
		return cooling
	}
	if stay, ok := r.Stays[n.Name]; ok && stay.Why.Reason == verdict.NoReplacement {
		return s.verdict(stay.Why)
	}
	s.When = "at one of the next decisions: nodes are replaced a few at a time"
	return s
}

// stays says why a node that may stay does.
func (r *reader) stays(n *cluster.Node) Status {
	s := Status{State: StateStays}
	pool, ok := r.Snapshot.PoolByName(n.Pool)
	if paused := disrupt.Paused(r.Snapshot, n, plan.Underutilized); !paused.IsYes() {
		return s.paused(n, paused)
	}
	hold := r.holds.Of(n)
	switch {
	case ok && pool.Static:
		return s.cause(verdict.Unconsolidatable, "NodePool", n.Pool, "pool %s has a fixed number of nodes", n.Pool)
	case hold.Kind != disrupt.HeldByNobody:
		return s.held(hold)
	case !n.Empty && pool.Policy == cluster.PolicyEmpty:
		s = s.cause(verdict.Unconsolidatable, "NodePool", n.Pool, "consolidationPolicy of pool %s is %s", n.Pool, pool.Policy)
		s.When = "when it is empty, drifted or expired"
		return s
	}
	if why := disrupt.HadPodEvent(r.Snapshot, n); !why.IsYes() {
		s = s.verdict(why)
		at, ever := disrupt.ConsolidatableAt(n, pool)
		if s.Until = at; !ever {
			s.Cause.Kind, s.Cause.Object = "NodePool", n.Pool
			s.When = "when consolidateAfter of the NodePool is changed, or it is drifted or expired"
		}
		return s
	}
	if cooling, ok := r.cooldown(n, s); ok {
		return cooling
	}
	reason := plan.Underutilized
	if n.Empty {
		reason = plan.Empty
	}
	if r.ledger.Left(n.Pool, reason) == 0 {
		return s.budget(r, n, reason)
	}
	if stay, ok := r.Stays[n.Name]; ok {
		return s.verdict(stay.Why)
	}
	s.Text, s.When = "nothing cheaper was found for its pods", when(verdict.Unconsolidatable.Ends())
	s.Cause.Reason = verdict.Unconsolidatable
	return s
}

// cooldown says until when a node, or its pool, is left alone after a failure.
func (r *reader) cooldown(n *cluster.Node, s Status) (Status, bool) {
	now := r.Snapshot.At
	if c, ok := r.Memory.NodeCooldowns[n.Name]; ok && c.Until.After(now) {
		s = s.verdict(c.Why)
		s.Until = c.Until
		return s, true
	}
	if c, ok := r.Memory.PoolCooldowns[n.Pool]; ok && c.Until.After(now) {
		s = s.cause(verdict.PoolPaused, "NodePool", n.Pool, "replacements of pool %s failed", n.Pool)
		s.Until = c.Until
		return s, true
	}
	return s, false
}

// held returns the status of a node that something holds.
func (s Status) held(h disrupt.Hold) Status {
	s = s.verdict(h.Why)
	s.Cause.Kind = string(h.Kind)
	if h.Kind == disrupt.HeldByPDB || h.Kind == disrupt.HeldByPool {
		s.Cause.Object = h.Object // of the others each node has its own
	}
	switch h.Kind {
	case disrupt.HeldByAnnotation:
		s.When = "when the annotation is removed, or the pod ends"
	case disrupt.HeldByPDB:
		s.When = "when PodDisruptionBudget " + h.Object + " allows an eviction"
	case disrupt.HeldByPlan:
		s.When = "when the pods are there, or are not expected any more"
	case disrupt.HeldByCommand:
		s.When = "when those pods have come"
	case disrupt.HeldByPool:
		s.When = "when the NodePool exists again, or the NodeClaim is deleted"
	case disrupt.HeldByNobody, disrupt.HeldByReboot, disrupt.HeldByStart:
	}
	return s
}

// budget returns the status of a node whose NodePool's budgets allow no more.
func (s Status) budget(r *reader, n *cluster.Node, reason string) Status {
	s = s.cause(verdict.BudgetExhausted, "NodePool", n.Pool, "the budgets of pool %s allow no more disruption for %s", n.Pool, reason)
	s.Until = r.budgetOpens(n.Pool, reason)
	return s
}

// paused returns the status of a node of a pool whose disruption is paused.
func (s Status) paused(n *cluster.Node, why verdict.Verdict) Status {
	s = s.verdict(why)
	s.Cause.Kind, s.Cause.Object = "NodePool", n.Pool
	return s
}

// verdict adds a verdict of the core.
func (s Status) verdict(v verdict.Verdict) Status {
	return s.cause(v.Reason, "", "", "%s", v.About(""))
}

// cause adds a reason in words, after what is said already.
func (s Status) cause(reason verdict.Reason, kind, object, format string, args ...any) Status {
	text := fmt.Sprintf(format, args...)
	if s.Text != "" && text != "" {
		text = s.Text + "; " + text
	}
	s.Text, s.Cause, s.When = text, Cause{reason, kind, object}, when(reason.Ends())
	return s
}

// counted returns "1 node" or "2 nodes".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
