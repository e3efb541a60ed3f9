package journal

import (
	"cmp"
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

// Kinds of what can be asked about.
const (
	KindPod    = "pod"
	KindNode   = "node"
	KindClaim  = "nodeclaim"
	KindPool   = "nodepool"
	KindBuffer = "capacitybuffer"
)

// Subject is what is asked about. Kind is one of the above or empty: whatever has the
// name, but for a NodePool. Namespace is of pods and CapacityBuffers; empty: any.
type Subject struct {
	Kind, Namespace, Name string
}

// ParseSubject reads what a person asks about: NAME, NAMESPACE/NAME of a pod, or a kind
// before either: pod/NAME, pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME, nodepool/NAME,
// capacitybuffer/NAME, capacitybuffer/NAMESPACE/NAME.
func ParseSubject(text string) (Subject, error) {
	parts := strings.Split(text, "/")
	kinds := map[string]string{
		"pod": KindPod, "pods": KindPod, "po": KindPod, "node": KindNode, "nodes": KindNode, "no": KindNode,
		"nodeclaim": KindClaim, "nodeclaims": KindClaim, "claim": KindClaim,
		"nodepool": KindPool, "nodepools": KindPool, "pool": KindPool,
		"capacitybuffer": KindBuffer, "capacitybuffers": KindBuffer, "buffer": KindBuffer,
	}
	kind := ""
	if len(parts) > 1 && kinds[parts[0]] != "" {
		kind, parts = kinds[parts[0]], parts[1:]
	}
	if slices.Contains(parts, "") || len(parts) > 2 || len(parts) == 2 && kind != "" && kind != KindPod && kind != KindBuffer {
		return Subject{}, fmt.Errorf("%q names nothing: give NAME, NAMESPACE/NAME, pod/NAME, node/NAME, nodeclaim/NAME, nodepool/NAME or capacitybuffer/NAME", text)
	}
	if len(parts) == 2 {
		return Subject{cmp.Or(kind, KindPod), parts[0], parts[1]}, nil
	}
	return Subject{Kind: kind, Name: parts[0]}, nil
}

// Answer is all that a journal knows of one pod, node, NodeClaim, NodePool or CapacityBuffer.
type Answer struct {
	Kind string `json:"kind"`
	// Name is that of the pod or CapacityBuffer, with its namespace, or of the node or NodeClaim as it was asked for.
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"`
	Claim string `json:"claim,omitempty"`
	Pool  string `json:"pool,omitempty"`
	// Facts are what the newest decision about it saw of it.
	Facts []string `json:"facts,omitempty"`
	// Says are what was decided about it, the newest first.
	Says []Say `json:"says"`
}

// Say is one thing that was decided, as long as it was said again and again.
type Say struct {
	// First and Last are when it was said, Times how often.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Times int64     `json:"times"`
	// Decision is the id of the last decision that said it; 0: it is no longer there.
	Decision int64       `json:"decision,omitempty"`
	Loop     record.Loop `json:"loop"`
	What     string      `json:"what"`
	// Details are a line each: the nearest miss of each pool, or why no other node was launched.
	Details []string `json:"details,omitempty"`
}

// explainer gathers answers, one decision after another.
type explainer struct {
	subject Subject
	answers map[string]*Answer // by kind and name; of pods and their UID
	// alias is the claim of the node that is asked about, or the node of the claim.
	alias string
	// command is the id of the command that the node was launched for; empty: for none.
	command string

	entry    *Entry
	decision *record.Decision
}

// open takes a decision up if it may be about the subject.
func (x *explainer) open(e *Entry) (ok bool, err error) {
	for _, name := range []string{x.subject.Name, x.alias, x.command} {
		if name == "" || ok {
			continue
		}
		if ok, err = e.mentions(name); err != nil {
			return false, err
		}
	}
	if !ok {
		return false, nil
	}
	x.entry = e
	x.decision, err = e.Decision()
	return err == nil, err
}

// about reports whether things of one of the kinds are asked about.
func (x *explainer) about(kinds ...string) bool {
	return x.subject.Kind == "" || slices.Contains(kinds, x.subject.Kind)
}

// pods looks at what was decided about pods of the name.
func (x *explainer) pods() {
	if !x.about(KindPod) {
		return
	}
	p := &x.decision.Plan
	for i := range p.Assignments {
		if a := x.pod(p.Assignments[i].Pod); a != nil {
			x.say(a, "planned for "+node(p.Assignments[i].Node, p.Assignments[i].Claim))
		}
	}
	for i := range p.Launches {
		for _, ref := range p.Launches[i].Pods {
			if a := x.pod(ref); a != nil {
				x.say(a, "a new node for it"+others(len(p.Launches[i].Pods))+": "+x.claim(i), x.price(&p.Launches[i]))
			}
		}
	}
	for i := range p.Refusals {
		if a := x.pod(p.Refusals[i].Pod); a != nil {
			why := &p.Refusals[i].Why
			x.say(a, refused(why.Reason), misses(why)...)
		}
	}
	for i := range x.decision.Disruption.Commands {
		x.podsOfCommand(&x.decision.Disruption.Commands[i])
	}
	for i := range x.decision.Snapshot.Pending {
		pod := &x.decision.Snapshot.Pending[i]
		if a := x.pod(pod.PodRef); a != nil {
			a.Facts = []string{"created " + stamp(pod.Created)}
			if pod.Constraints != nil {
				a.Facts = append(a.Facts, "asks for "+amounts(pod.Constraints.Requests))
			}
			if x.decision.Bug != "" {
				x.say(a, "the decision failed: "+x.decision.Bug)
			}
		}
	}
}

func (x *explainer) podsOfCommand(s *plan.Command) {
	for i := range s.Moves {
		if a := x.pod(s.Moves[i].Pod); a != nil {
			x.say(a, fmt.Sprintf("to move to %s: %s", node(s.Moves[i].Node, s.Moves[i].Claim), worth(s)))
		}
	}
	for i := range s.Launch {
		for _, ref := range s.Launch[i].Pods {
			if a := x.pod(ref); a != nil {
				x.say(a, "to move to a new node: "+worth(s), x.price(&s.Launch[i]))
			}
		}
	}
}

// pod returns the answer about a pod if it is asked about.
func (x *explainer) pod(ref cluster.PodRef) *Answer {
	if ref.Name != x.subject.Name || x.subject.Namespace != "" && ref.Namespace != x.subject.Namespace {
		return nil
	}
	return x.answer(KindPod, ref.String(), ref.UID)
}

func (x *explainer) answer(kind, name, uid string) *Answer {
	key := kind + " " + name + " " + uid
	a := x.answers[key]
	if a == nil {
		a = &Answer{Kind: kind, Name: name}
		x.answers[key] = a
	}
	return a
}

// say notes what the decision at hand said. What is said again in a row is said once, with
// the last details: only amounts change with every decision.
func (x *explainer) say(a *Answer, what string, details ...string) {
	e := x.entry
	details = slices.DeleteFunc(details, func(s string) bool { return s == "" })
	until, times := e.At, 1+e.Again
	if e.Again > 0 {
		until = e.Until
	}
	if n := len(a.Says); n > 0 && a.Says[n-1].What == what && a.Says[n-1].Loop == e.Loop && alike(a.Says[n-1].Details, details) {
		last := &a.Says[n-1]
		last.Last, last.Times, last.Decision, last.Details = until, last.Times+times, e.ID, details
		return
	}
	a.Says = append(a.Says, Say{First: e.At, Last: until, Times: times, Decision: e.ID, Loop: e.Loop, What: what, Details: details})
}

// remembered takes a refusal in of which the decisions may be gone.
func (x *explainer) remembered(r *Refused) {
	if !x.about(KindPod) {
		return
	}
	a := x.pod(r.Pod())
	if a == nil {
		return
	}
	for i := range a.Says {
		if s := &a.Says[i]; s.What == refused(r.Reason) && strings.Join(s.Details, "; ") == r.Why {
			if r.First.Before(s.First) {
				s.First = r.First
			}
			if r.Last.After(s.Last) {
				s.Last = r.Last
			}
			s.Times = max(s.Times, r.Times)
			return
		}
	}
	a.Says = append(a.Says, Say{First: r.First, Last: r.Last, Times: r.Times, Loop: record.Provisioning, What: refused(r.Reason), Details: []string{r.Why}})
}

// list returns the answers in the order of their names, in each the newest statement first.
func (x *explainer) list() []Answer {
	var all []Answer
	for _, a := range x.answers {
		slices.SortStableFunc(a.Says, func(p, q Say) int { return cmp.Or(q.Last.Compare(p.Last), cmp.Compare(q.Decision, p.Decision)) })
		all = append(all, *a)
	}
	slices.SortFunc(all, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), newest(&b).Compare(newest(&a)))
	})
	return all
}

func newest(a *Answer) time.Time {
	if len(a.Says) == 0 {
		return time.Time{}
	}
	return a.Says[0].Last
}

func refused(reason verdict.Reason) string { return fmt.Sprintf("refused (%s)", reason) }

// misses returns why a pod was refused: a line for each pool where that is all there is
// to say.
func misses(why *verdict.Verdict) []string {
	if len(why.Causes) < 2 || why.Subject != "" || why.Detail != "" {
		return []string{why.String()}
	}
	lines := make([]string, len(why.Causes))
	for i := range why.Causes {
		lines[i] = why.Causes[i].String()
	}
	return lines
}

// alike reports whether details say the same but for amounts.
func alike(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool { return withoutDigits(x) == withoutDigits(y) })
}

// claim names the NodeClaim that was created for launch i.
func (x *explainer) claim(i int) string {
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
func (x *explainer) price(l *plan.Launch) string {
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
