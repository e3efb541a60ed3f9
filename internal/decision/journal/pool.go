package journal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// claimsNamed is how many NodeClaims of a pool are named.
const claimsNamed = 5

// pool gathers what was decided about the NodePool of that name. Who does not say that a pool is meant
// does not ask for that: pools are called like much else.
func (x *explainer) pool() {
	if x.subject.Kind != KindPool {
		return
	}
	if x.decision.Loop == record.Static {
		if x.decision.Scaling.Pool == x.subject.Name {
			x.scaling(x.answer(KindPool, x.subject.Name, ""))
		}
		return
	}
	p := &x.decision.Plan
	var claims []string
	nodes, pods, chunks := 0, 0, 0
	for i := range p.Launches {
		l := &p.Launches[i]
		if l.Pool != x.subject.Name {
			continue
		}
		if i < len(x.decision.Claims) && x.decision.Claims[i] != "" {
			claims = append(claims, x.decision.Claims[i])
		}
		nodes, pods = nodes+1, pods+len(l.Pods)
		for _, c := range l.Chunks {
			chunks += c.Count
		}
	}
	if nodes > 0 {
		what := fmt.Sprintf("%s launched for %s", times(nodes, "node"), times(pods, "pod"))
		if chunks > 0 {
			what += fmt.Sprintf(" and %s of capacity buffers", times(chunks, "chunk"))
		}
		x.say(x.answer(KindPool, x.subject.Name, ""), what, named(claims))
	}
	for i := range p.Idle {
		if p.Idle[i].Subject == x.subject.Name {
			x.say(x.answer(KindPool, x.subject.Name, ""), fmt.Sprintf("nothing is launched from it (%s)", p.Idle[i].Reason), p.Idle[i].About("").String())
		}
	}
}

// scaling says what brings a static pool to its number of nodes.
func (x *explainer) scaling(a *Answer) {
	s := &x.decision.Scaling
	a.Facts = []string{fmt.Sprintf("%s, %s", x.replicas(), times(len(x.decision.Snapshot.Nodes), "node"))}
	if n := len(s.Launches); n > 0 {
		made := slices.DeleteFunc(slices.Clone(x.decision.Claims), func(c string) bool { return c == "" })
		price := cheapest(&s.Launches[0], "")
		if failed := n - len(made); failed > 0 {
			x.say(a, fmt.Sprintf("%s of %d missing to be launched, %d without a claim", times(n, "node"), s.Missing, failed), named(made), price, strings.TrimPrefix(because(x.decision.Error), ": "))
		} else {
			x.say(a, fmt.Sprintf("%s launched of %d missing", times(n, "node"), s.Missing), named(made), price)
		}
	}
	if len(s.Removals) > 0 {
		x.say(a, fmt.Sprintf("%s removed, more than its replicas", times(len(s.Removals), "node")), removed(s.Removals))
	}
	if !s.Blocked.IsYes() {
		x.say(a, fmt.Sprintf("short of nodes (%s)", s.Blocked.Reason), s.Blocked.About("").String())
	}
}

// replicas says how many nodes the static pool at hand is to have.
func (x *explainer) replicas() string {
	if pool, ok := x.decision.Snapshot.PoolByName(x.decision.Scaling.Pool); ok {
		return times(pool.Replicas, "replica")
	}
	return "its replicas"
}

func times(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// named names some NodeClaims and counts the others.
func named(claims []string) string {
	if more := len(claims) - claimsNamed; more > 0 {
		return strings.Join(claims[:claimsNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(claims, ", ")
}

func removed(list []plan.Removal) string {
	claims := make([]string, len(list))
	for i := range list {
		claims[i] = list[i].Claim
	}
	return named(claims)
}
