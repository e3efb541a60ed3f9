package story

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// typesShown is how many instance types a launch is printed with.
const typesShown = 4

// Print returns everything that provisioning decided, a line each.
func Print(p *plan.Plan) string {
	var b strings.Builder
	onNode, nodes := map[string][]cluster.PodRef{}, []string{}
	for _, pl := range p.Assignments {
		if onNode[pl.Node] == nil {
			nodes = append(nodes, pl.Node)
		}
		onNode[pl.Node] = append(onNode[pl.Node], pl.Pod)
	}
	slices.Sort(nodes)
	for _, n := range nodes {
		fmt.Fprintf(&b, "place %s on %s\n", names(onNode[n]), n)
	}
	for i := range p.Launches {
		printLaunch(&b, &p.Launches[i])
	}
	byReason, reasons := map[string][]cluster.PodRef{}, []string{}
	for _, r := range p.Refusals {
		why := string(r.Why.Reason) + ": " + r.Why.String()
		if byReason[why] == nil {
			reasons = append(reasons, why)
		}
		byReason[why] = append(byReason[why], r.Pod)
	}
	for _, why := range reasons {
		fmt.Fprintf(&b, "refuse %s\n  %s\n", names(byReason[why]), why)
	}
	for i := range p.Buffers {
		printBuffer(&b, &p.Buffers[i])
	}
	for _, idle := range p.Idle {
		fmt.Fprintf(&b, "idle %s\n", idle)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	if r := &p.Resilience; r.Before != r.After || r.HoldingBefore != r.HoldingAfter {
		fmt.Fprintf(&b, "%s\n", p.Resilience)
	}
	return b.String()
}

func printLaunch(b *strings.Builder, l *plan.Launch) {
	types := strings.Join(l.Types[:min(typesShown, len(l.Types))], " ")
	if more := len(l.Types) - typesShown; more > 0 {
		types += fmt.Sprintf(" +%d", more)
	}
	fmt.Fprintf(b, "launch from %s [%s] at %.2f for %s\n", l.Pool, types, l.PriceHourly, contents(l))
	var rules []string
	for _, k := range l.Requirements.Keys() {
		if k != label.InstanceType && k != label.NodePool || l.Requirements[k].MinValues > 0 {
			short := strings.NewReplacer(label.Zone, "zone", label.CapacityType, "capacity", label.InstanceType, "type", arch, "arch").Replace(k)
			rules = append(rules, short+" "+l.Requirements[k].String())
		}
	}
	if len(rules) > 0 {
		fmt.Fprintf(b, "  %s\n", strings.Join(rules, ", "))
	}
	var requests []string
	for _, name := range l.Requests.Names() {
		requests = append(requests, fmt.Sprintf("%s=%d", name, l.Requests[name]))
	}
	fmt.Fprintf(b, "  requests %s\n", strings.Join(requests, " "))
	if l.MinValuesRelaxed {
		b.WriteString("  minValues relaxed\n")
	}
}

// contents returns the pods and the chunks of buffers that a launch is for.
func contents(l *plan.Launch) string {
	var words []string
	if len(l.Pods) > 0 {
		words = append(words, names(l.Pods))
	}
	for _, c := range l.Chunks {
		words = append(words, fmt.Sprintf("%d of buffer %s", c.Count, strings.TrimPrefix(c.Buffer, "default/")))
	}
	return strings.Join(words, ", ")
}

// printBuffer writes which nodes hold the chunks of a buffer, and how many have no room.
func printBuffer(b *strings.Builder, r *plan.BufferRoom) {
	for _, h := range r.Held {
		fmt.Fprintf(b, "hold %d of buffer %s on %s\n", h.Count, r.Name, h.Node)
	}
	if missing := r.Chunks - r.HeldCount() - r.Launched; missing > 0 {
		fmt.Fprintf(b, "no room for %d of buffer %s\n  %s: %s\n", missing, r.Name, r.Why.Reason, r.Why)
	}
}

func names(pods []cluster.PodRef) string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return strings.Join(out, " ")
}
