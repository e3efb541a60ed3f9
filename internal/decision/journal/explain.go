package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// Answer is all that a journal knows of one pod, node, NodeClaim, NodePool or CapacityBuffer.
type Answer struct {
	Kind string `json:"kind"`
	// Name is that of the pod or CapacityBuffer, with its namespace, or of the node or NodeClaim as it was asked for.
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
	// Now says what it does or waits for at this moment; empty: that is not known, because the journal was read
	// from a file. Ends says until when, or what ends that; empty: nothing is expected to.
	Now   string `json:"now,omitempty"`
	Ends  string `json:"ends,omitempty"`
	Node  string `json:"node,omitempty"`
	Claim string `json:"claim,omitempty"`
	Pool  string `json:"pool,omitempty"`
	// Facts are what the newest decision about it saw of it.
	Facts []string `json:"facts,omitempty"`
	// Says are what was decided about it, the newest first.
	Says []Say `json:"says"`
	// Ranking says why it was launched as the instance type that it is; nil: that was not asked for.
	Ranking *Ranking `json:"ranking,omitempty"`
}

// Say is one thing that was decided, as long as it was said again and again.
type Say struct {
	// First and Last are when it was said, Times how often.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Times int64     `json:"times"`
	// Decision is the last decision that said it and was kept; none: it was not.
	Decision ID          `json:"decision,omitzero"`
	Loop     record.Loop `json:"loop"`
	What     string      `json:"what"`
	// Details are a line each: the nearest miss of each pool, or why no other node was launched.
	Details []string `json:"details,omitempty"`
	// Ends says until when a refusal holds, or what would change it.
	Ends string `json:"ends,omitempty"`
}

// speaker says in the timelines what one decision decided.
type speaker struct {
	*timelines
	saying
	decision *record.Decision
	made     []*statement
	pending  map[cluster.PodRef]*cluster.Pod // nil until asked for
}

// decided says what a decision decided about each subject.
func (t *timelines) decided(d *record.Decision, s saying) {
	x := &speaker{timelines: t, saying: s, decision: d}
	x.pods()
	x.nodes()
	x.pools()
	x.buffers()
	t.current[askerOf(d)] = x.made
	t.prune()
}

// say says something, with the details that are not empty.
func (x *speaker) say(l *timeline, what string, details ...string) {
	details = slices.DeleteFunc(details, func(s string) bool { return s == "" })
	x.what, x.details, x.isRefusal, x.key = what, details, false, x.hasher.keyOf(what, details)
	e := x.timelines.say(l, &x.saying)
	e.details = details // amounts may be others
	x.made = append(x.made, e)
}

// refuse says why not; form is a format for the reason. The text is made when somebody asks.
func (x *speaker) refuse(l *timeline, form string, why *verdict.Verdict) {
	x.refuseByHash(l, form, why, x.hasher.hashOf(why))
}

// refuseByHash is refuse for a reason whose hash is known.
func (x *speaker) refuseByHash(l *timeline, form string, why *verdict.Verdict, hash uint64) {
	x.what, x.details, x.isRefusal, x.why = form, nil, true, *why
	if l.Kind == KindNode || l.Kind == KindPool {
		x.why.Subject = ""
	}
	x.key = x.hasher.keyOfRefusal(form, &x.why, hash)
	e := x.timelines.say(l, &x.saying)
	e.why = x.why
	x.made = append(x.made, e)
}

// pods says what was decided about pods.
func (x *speaker) pods() {
	p := &x.decision.Plan
	for i := range p.Assignments {
		x.say(x.pod(p.Assignments[i].Pod), "planned for "+node(p.Assignments[i].Node, p.Assignments[i].Claim))
	}
	for i := range p.Launches {
		what := "a new node for it" + others(len(p.Launches[i].Pods)) + ": " + x.claim(i)
		for _, ref := range p.Launches[i].Pods {
			x.say(x.pod(ref), what, x.price(&p.Launches[i]))
		}
	}
	for i := range p.Refusals {
		x.refuse(x.pod(p.Refusals[i].Pod), "refused (%s)", &p.Refusals[i].Why)
	}
	for i := range x.decision.Disruption.Commands {
		x.podsOfCommand(&x.decision.Disruption.Commands[i])
	}
	if x.decision.Bug == "" {
		return
	}
	for i := range x.decision.Snapshot.Pending {
		x.say(x.pod(x.decision.Snapshot.Pending[i].PodRef), "the decision failed: "+x.decision.Bug)
	}
}

func (x *speaker) podsOfCommand(s *plan.Command) {
	for i := range s.Moves {
		x.say(x.pod(s.Moves[i].Pod), fmt.Sprintf("to move to %s: %s", node(s.Moves[i].Node, s.Moves[i].Claim), worth(s)))
	}
	for i := range s.Launch {
		for _, ref := range s.Launch[i].Pods {
			x.say(x.pod(ref), "to move to a new node: "+worth(s), x.price(&s.Launch[i]))
		}
	}
}

// pod returns the timeline of a pod.
func (x *speaker) pod(ref cluster.PodRef) *timeline {
	l, isNew := x.of(identity{KindPod, ref.Namespace, ref.Name, ref.UID})
	if !isNew {
		return l
	}
	if x.pending == nil {
		x.pending = map[cluster.PodRef]*cluster.Pod{}
		for i := range x.decision.Snapshot.Pending {
			p := &x.decision.Snapshot.Pending[i]
			x.pending[p.PodRef] = p
		}
	}
	if p := x.pending[ref]; p != nil {
		l.facts = []string{"created " + stamp(p.Created)}
		if p.Constraints != nil {
			l.facts = append(l.facts, "asks for "+amounts(p.Constraints.Requests))
		}
	}
	return l
}

// remembered takes a refusal in that a journal of the first format has, and of which the decisions may be gone.
func (t *timelines) remembered(r *Refused) {
	l, _ := t.of(identity{KindPod, r.Namespace, r.Name, r.UID})
	for _, e := range l.statements {
		if e.why.Reason == r.Reason && strings.Join(e.lines(), "; ") == r.Why {
			if r.First.Before(e.first) {
				e.first = r.First
			}
			if r.Last.After(e.last) {
				e.last = r.Last
			}
			e.times = max(e.times, r.Times)
			return
		}
	}
	l.statements = append(l.statements, &statement{
		of: l, loop: record.Provisioning, first: r.First, last: r.Last, times: r.Times,
		what: refused(r.Reason), details: []string{r.Why}, why: verdict.Verdict{Reason: r.Reason},
	})
	t.count++
	t.prune()
}

func newest(a *Answer) time.Time {
	if len(a.Says) == 0 {
		return time.Time{}
	}
	return a.Says[0].Last
}

func refused(reason verdict.Reason) string { return fmt.Sprintf("refused (%s)", reason) }

// claim names the NodeClaim that was created for launch i.
func (x *speaker) claim(i int) string {
	l := &x.decision.Plan.Launches[i]
	if i < len(x.decision.Claims) && x.decision.Claims[i] != "" {
		return fmt.Sprintf("claim %s of pool %s", x.decision.Claims[i], l.Pool)
	}
	return fmt.Sprintf("pool %s, but no claim was made%s", l.Pool, because(x.decision.Error))
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return ": " + err
}

// price says what a launch costs and what the choice was.
func (x *speaker) price(l *plan.Launch) string {
	return cheapest(l, " that hold its pods")
}

// cheapest says what a launch costs, and of how many types, which are what, that is the cheapest.
func cheapest(l *plan.Launch, are string) string {
	switch len(l.Types) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s at $%.4f per hour, the one type%s", l.Types[0], l.PriceHourly, strings.Replace(are, "hold", "holds", 1))
	default:
		return fmt.Sprintf("%s at $%.4f per hour, the cheapest of %d types%s", l.Types[0], l.PriceHourly, len(l.Types), are)
	}
}

func others(pods int) string {
	switch pods {
	case 1:
		return " alone"
	case 2:
		return " and 1 other pod"
	default:
		return fmt.Sprintf(" and %d other pods", pods-1)
	}
}

func node(node, claim string) string {
	switch {
	case claim == "":
		return "node " + node
	case node == claim:
		return "claim " + claim + ", whose node had not registered"
	default:
		return fmt.Sprintf("node %s (claim %s)", node, claim)
	}
}

// worth says which nodes a command removes and what that saves.
func worth(s *plan.Command) string {
	var going []string
	for _, r := range s.Remove {
		going = append(going, r.Node)
	}
	return fmt.Sprintf("%s %s, which saves $%.4f per hour at %d evictions", strings.Join(going, ", "), pluralVerb(len(going)), s.SavingHourly, s.Evictions)
}

func pluralVerb(n int) string {
	if n == 1 {
		return "is removed"
	}
	return "are removed"
}

// amounts says resources, other than room for pods, as a person writes them.
func amounts(l quantity.List) string {
	var parts []string
	for _, name := range l.Names() {
		if l[name] != 0 && name != quantity.Pods {
			parts = append(parts, fit.Amount(name, l[name]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
