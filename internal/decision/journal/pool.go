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

// pools says what was decided about NodePools.
func (x *speaker) pools() {
	if x.decision.Loop == record.Static {
		x.scaling(x.pool(x.decision.Scaling.Pool))
		return
	}
	p := &x.decision.Plan
	done := map[string]bool{}
	for i := range p.Launches {
		if name := p.Launches[i].Pool; !done[name] {
			done[name] = true
			x.launched(name)
		}
	}
	for i := range p.Idle {
		x.refuse(x.pool(p.Idle[i].Subject), "nothing is launched from it (%s)", &p.Idle[i])
	}
}

// launched says what is launched from a pool.
func (x *speaker) launched(pool string) {
	p := &x.decision.Plan
	var claims []string
	nodes, pods, chunks := 0, 0, 0
	for i := range p.Launches {
		l := &p.Launches[i]
		if l.Pool != pool {
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
	what := fmt.Sprintf("%s launched for %s", times(nodes, "node"), times(pods, "pod"))
	if chunks > 0 {
		what += fmt.Sprintf(" and %s of capacity buffers", times(chunks, "chunk"))
	}
	x.say(x.pool(pool), what, named(claims))
}

// pool returns the timeline of a NodePool.
func (x *speaker) pool(name string) *timeline {
	l, _ := x.of(identity{Kind: KindPool, Name: name})
	return l
}

// scaling says what brings a static pool to its number of nodes.
func (x *speaker) scaling(a *timeline) {
	s := &x.decision.Scaling
	a.facts = []string{fmt.Sprintf("%s, %s", x.replicas(), times(len(x.decision.Snapshot.Nodes), "node"))}
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
		x.refuse(a, "short of nodes (%s)", &s.Blocked)
	}
}

// replicas says how many nodes the static pool at hand is to have.
func (x *speaker) replicas() string {
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
