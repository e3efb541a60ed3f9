package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Outline returns a text that is the same for plans that do the same for the same pods, whenever they are made and
// whatever the prices are.
func (p *Plan) Outline() string {
	var lines []string
	for i := range p.Launches {
		launch := &p.Launches[i]
		pods := make([]string, 0, len(launch.Pods))
		for _, pod := range launch.Pods {
			pods = append(pods, pod.String())
		}
		slices.Sort(pods)
		lines = append(lines, launch.Outline()+" for "+strings.Join(pods, ", "))
	}
	for _, a := range p.Assignments {
		lines = append(lines, fmt.Sprintf("%s on %s %s", a.Pod, a.Node, a.Claim))
	}
	for _, r := range p.Refusals {
		lines = append(lines, fmt.Sprintf("%s refused: %s", r.Pod, r.Why.Reason))
	}
	return sortedLines(lines)
}

// Outline returns a text that is the same for decisions that begin the same. What becomes of commands in progress is
// not part of it.
func (d *Disruption) Outline() string {
	var lines []string
	for i := range d.Commands {
		lines = append(lines, d.Commands[i].Outline())
	}
	for i := range d.Reboots {
		lines = append(lines, "reboot "+d.Reboots[i].Node)
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
