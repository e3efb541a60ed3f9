package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// ByPod returns for each pod a text that is the same in plans that do the same for it, whenever they are made and
// whatever the prices are. That of the zero PodRef is of launches for no pod.
func (p *Plan) ByPod() map[cluster.PodRef]string {
	done := make(map[cluster.PodRef]string, len(p.Assignments)+len(p.Refusals))
	var podless []string
	for i := range p.Launches {
		line := p.Launches[i].Line()
		for _, pod := range p.Launches[i].Pods {
			done[pod] = line
		}
		if len(p.Launches[i].Pods) == 0 {
			podless = append(podless, line)
		}
	}
	if len(podless) > 0 {
		done[cluster.PodRef{}] = sortedLines(podless)
	}
	for _, a := range p.Assignments {
		done[a.Pod] = fmt.Sprintf("on %s %s", a.Node, a.Claim)
	}
	for _, r := range p.Refusals {
		done[r.Pod] = "refused: " + string(r.Why.Reason)
	}
	return done
}

// Line says what is launched, and for which pods.
func (l *Launch) Line() string {
	pods := make([]string, 0, len(l.Pods))
	for _, pod := range l.Pods {
		pods = append(pods, pod.String())
	}
	slices.Sort(pods)
	return l.Outline() + " for " + strings.Join(pods, ", ")
}

// Outline returns a text that is the same for decisions that begin the same. What becomes of commands in progress is
// not part of it.
func (d *Disruption) Outline() string {
	var lines []string
	for i := range d.Commands {
		lines = append(lines, d.Commands[i].Outline())
	}
	for i := range d.Reboots {
		lines = append(lines, d.Reboots[i].Outline())
	}
	return sortedLines(lines)
}

// Outline says which nodes the command removes, why, and what is launched for them.
func (c *Command) Outline() string {
	nodes := make([]string, 0, len(c.Remove))
	for i := range c.Remove {
		nodes = append(nodes, c.Remove[i].Node)
	}
	slices.Sort(nodes)
	text := c.Reason + " " + strings.Join(nodes, ", ")
	for i := range c.Launch {
		text += " -> " + c.Launch[i].Outline()
	}
	return text
}

// Outline says which node is rebooted.
func (r *Reboot) Outline() string { return "reboot " + r.Node }

// Outline says of which pool and instance type a launch is in the first place.
func (l *Launch) Outline() string {
	if len(l.Types) == 0 {
		return l.Pool
	}
	return l.Pool + ": " + l.Types[0]
}

func sortedLines(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
