package journal

import (
	"fmt"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// podsNamed is how many pods of a node are named.
const podsNamed = 5

// nodes says what was decided about nodes, by their names or their NodeClaims'.
func (x *speaker) nodes() {
	p := &x.decision.Plan
	for i := range p.Launches {
		if i >= len(x.decision.Claims) || x.decision.Claims[i] == "" {
			continue
		}
		l := x.node(x.decision.Claims[i])
		l.pool = p.Launches[i].Pool
		x.say(l, "launched for "+counted(p.Launches[i].Pods), someOf(p.Launches[i].Pods), x.price(&p.Launches[i]))
	}
	planned := map[string][]cluster.PodRef{}
	for i := range p.Assignments {
		planned[p.Assignments[i].Node] = append(planned[p.Assignments[i].Node], p.Assignments[i].Pod)
	}
	for node, pods := range planned {
		x.say(x.node(node), "meant for "+counted(pods), someOf(pods))
	}
	x.removals()
	x.scaled()
}

// scaled looks at what brought a static pool to its number of nodes.
func (x *speaker) scaled() {
	s := &x.decision.Scaling
	for i := range s.Launches {
		if i >= len(x.decision.Claims) || x.decision.Claims[i] == "" {
			continue
		}
		l := x.node(x.decision.Claims[i])
		l.pool = s.Pool
		x.say(l, "launched as one of "+x.replicas()+" of static pool "+s.Pool, cheapest(&s.Launches[i], ""))
	}
	for _, r := range s.Removals {
		x.say(x.node(r.Node), "removed: static pool "+s.Pool+" has more nodes than "+x.replicas())
	}
}

func (x *speaker) removals() {
	p := &x.decision.Disruption
	for _, list := range []struct {
		word     string
		removals []plan.Removal
	}{{"disrupted taint set", p.Marks}, {"disrupted taint removed", p.Unmarks}, {"removed", p.Removals}} {
		for _, r := range list.removals {
			x.say(x.node(r.Node), list.word+": "+r.Reason)
		}
	}
	for i := range p.Reboots {
		x.say(x.node(p.Reboots[i].Node), "rebooted in place: Unhealthy", "condition "+p.Reboots[i].Condition)
	}
	for i := range p.Commands {
		for _, r := range p.Commands[i].Remove {
			x.say(x.node(r.Node), fmt.Sprintf("to be removed by command %d (%s)", i+1, r.Reason), worth(&p.Commands[i]))
		}
		if id := p.Commands[i].ID; id != "" && len(p.Commands[i].Launch) > 0 {
			launched, _ := x.of(identity{Kind: kindCommand, Name: id})
			x.say(launched, fmt.Sprintf(launchedByCommand, i+1, p.Commands[i].Reason), worth(&p.Commands[i]))
		}
	}
	for i := range p.Undos {
		u := &p.Undos[i]
		for _, r := range u.Drop {
			x.refuse(x.node(r.Node), "removed unused: its command was cancelled (%s)", &u.Why)
		}
		for _, r := range u.Open {
			x.refuse(x.node(r.Node), "disrupted taint removed: its command was cancelled (%s)", &u.Why)
		}
	}
	x.stay(p.Blocked)
}

// staysMissed is how many nodes in a row may be in the list before and no more in this one.
const staysMissed = 16

// stay says why nodes stay. Most stayed by the decision before, and are in the same order, so few names are looked up.
func (x *speaker) stay(why []verdict.Verdict) {
	if len(why) == 0 {
		return
	}
	hashes := x.stays
	if hashes == nil {
		hashes = x.hasher.hashesOf(why)
	}
	before, staying := x.staying, make([]*timeline, len(why))
	for i := range why {
		at := slices.IndexFunc(before[:min(staysMissed, len(before))], func(l *timeline) bool { return l.Name == why[i].Subject })
		if at >= 0 {
			staying[i], before = before[at], before[at+1:]
		} else {
			staying[i] = x.node(why[i].Subject)
		}
		x.refuseByHash(staying[i], "stays (%s)", &why[i], hashes[i])
	}
	x.staying = staying
}

// node returns the timeline of a node.
func (x *speaker) node(name string) *timeline {
	l, _ := x.of(identity{Kind: KindNode, Name: name})
	return l
}

func counted(pods []cluster.PodRef) string {
	if len(pods) == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", len(pods))
}

// someOf names some pods and counts the others.
func someOf(pods []cluster.PodRef) string {
	text := ""
	for i, p := range pods {
		if i == podsNamed {
			return text + fmt.Sprintf(" and %d more", len(pods)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += p.String()
	}
	return text
}

// facts says what a snapshot has of a node.
func facts(n *cluster.Node) []string {
	kind := fmt.Sprintf("%s in %s, %s", n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType])
	if n.InFlight != nil {
		kind = "not launched yet"
	}
	out := []string{kind}
	if len(n.Allocatable) > 0 {
		out = append(out, fmt.Sprintf("%s of %s in use", amounts(n.Used), amounts(n.Allocatable)))
	}
	pods := int32(0)
	for _, p := range n.Pods {
		pods += p.Count
	}
	state := fmt.Sprintf("%d pods", pods)
	for _, is := range []struct {
		so   bool
		word string
	}{
		{n.Empty, "none of which needs a node"},
		{!n.Initialized, "not initialized"},
		{!n.Ready, "not ready"},
		{n.Deleting, "being deleted"},
		{n.DisruptionReason != "", "disruption reason " + n.DisruptionReason},
		{n.DoNotDisrupt != "", "do-not-disrupt: " + n.DoNotDisrupt},
	} {
		if is.so {
			state += ", " + is.word
		}
	}
	return append(out, state+fmt.Sprintf(", last pod event %s", stamp(n.LastPodEvent)))
}
