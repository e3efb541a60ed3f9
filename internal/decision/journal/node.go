package journal

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// podsNamed is how many pods of a node are named.
const podsNamed = 5

// nodes gathers what was decided about nodes of that name, or whose NodeClaim has it.
func (x *explainer) nodes() {
	if !x.about(KindNode, KindClaim) {
		return
	}
	p := &x.decision.Plan
	for i := range p.Launches {
		if i >= len(x.decision.Claims) {
			break
		}
		if a := x.node(x.decision.Claims[i]); a != nil {
			a.Pool = p.Launches[i].Pool
			x.say(a, "launched for "+counted(p.Launches[i].Pods), someOf(p.Launches[i].Pods), x.price(&p.Launches[i]))
		}
	}
	planned := map[string][]cluster.PodRef{}
	for i := range p.Assignments {
		planned[p.Assignments[i].Node] = append(planned[p.Assignments[i].Node], p.Assignments[i].Pod)
	}
	for node, pods := range planned {
		if a := x.node(node); a != nil {
			x.say(a, "meant for "+counted(pods), someOf(pods))
		}
	}
	x.removals()
	x.scaled()
	for i := range x.decision.Snapshot.Nodes {
		n := &x.decision.Snapshot.Nodes[i]
		if a := x.node(n.Name); a != nil {
			a.Node, a.Claim, a.Pool, a.Facts = n.Name, n.Claim, n.Pool, facts(n)
		}
	}
}

// scaled looks at what brought a static pool to its number of nodes.
func (x *explainer) scaled() {
	s := &x.decision.Scaling
	for i := range s.Launches {
		if i >= len(x.decision.Claims) {
			break
		}
		if a := x.node(x.decision.Claims[i]); a != nil {
			a.Pool = s.Pool
			x.say(a, "launched as one of "+x.replicas()+" of static pool "+s.Pool, cheapest(&s.Launches[i], ""))
		}
	}
	for _, r := range s.Removals {
		if a := x.node(r.Node); a != nil {
			x.say(a, "removed: static pool "+s.Pool+" has more nodes than "+x.replicas())
		}
	}
}

func (x *explainer) removals() {
	p := &x.decision.Disruption
	for _, list := range []struct {
		word     string
		removals []plan.Removal
	}{{"disrupted taint set", p.Marks}, {"disrupted taint removed", p.Unmarks}, {"removed", p.Removals}} {
		for _, r := range list.removals {
			if a := x.node(r.Node); a != nil {
				x.say(a, list.word+": "+r.Reason)
			}
		}
	}
	for i := range p.Reboots {
		if a := x.node(p.Reboots[i].Node); a != nil {
			x.say(a, "rebooted in place: Unhealthy", "condition "+p.Reboots[i].Condition)
		}
	}
	for i := range p.Commands {
		for _, r := range p.Commands[i].Remove {
			if a := x.node(r.Node); a != nil {
				x.say(a, fmt.Sprintf("to be removed by command %d (%s)", i+1, r.Reason), worth(&p.Commands[i]))
			}
		}
		if x.command != "" && p.Commands[i].ID == x.command {
			x.say(x.node(x.subject.Name), fmt.Sprintf("launched by command %d (%s)", i+1, p.Commands[i].Reason), worth(&p.Commands[i]))
		}
	}
	for i := range p.Undos {
		u := &p.Undos[i]
		for _, r := range u.Drop {
			if a := x.node(r.Node); a != nil {
				x.say(a, fmt.Sprintf("removed unused: its command was cancelled (%s)", u.Why.Reason), u.Why.String())
			}
		}
		for _, r := range u.Open {
			if a := x.node(r.Node); a != nil {
				x.say(a, fmt.Sprintf("disrupted taint removed: its command was cancelled (%s)", u.Why.Reason), u.Why.String())
			}
		}
	}
	for i := range p.Blocked {
		if a := x.node(p.Blocked[i].Subject); a != nil {
			x.say(a, fmt.Sprintf("stays (%s)", p.Blocked[i].Reason), p.Blocked[i].About("").String())
		}
	}
}

// learnNames finds the other name of the node that is asked about, and the command that it
// was launched for.
func (x *explainer) learnNames() {
	for i := range x.decision.Snapshot.Nodes {
		n := &x.decision.Snapshot.Nodes[i]
		if n.Name != x.subject.Name && n.Claim != x.subject.Name {
			continue
		}
		x.command = n.Replaces
		switch {
		case n.Claim == "" || n.Claim == n.Name:
		case n.Name == x.subject.Name:
			x.alias = n.Claim
		default:
			x.alias = n.Name
		}
	}
}

// node returns the answer about a node; nil: nobody asked about it.
func (x *explainer) node(name string) *Answer {
	if name == "" || name != x.subject.Name && name != x.alias {
		return nil
	}
	// There is one answer for both names; it is found under the one that is asked for.
	kind := x.subject.Kind
	if kind == "" {
		kind = KindNode
	}
	return x.answer(kind, x.subject.Name, "")
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
