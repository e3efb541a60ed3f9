package forecast

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// assign carries out a plan for pending pods: those whose target node is ready are bound, the others wait for it.
func (s *state) assign(p *plan.Plan) (acted bool) {
	target := map[cluster.PodRef]string{}
	for _, a := range p.Assignments {
		target[a.Pod] = a.Node
	}
	step := Step{At: s.snap.At}
	for i := range p.Launches {
		l := &p.Launches[i]
		name := s.launch(l, &step)
		if name == "" {
			continue
		}
		for _, ref := range l.Pods {
			target[ref] = name
			step.Assigned++
		}
	}
	if len(step.Launch) > 0 {
		s.out.Steps = append(s.out.Steps, step)
		acted = true
	}
	waiting := s.snap.Pending[:0:0]
	for _, pod := range s.snap.Pending {
		n := s.node(target[pod.PodRef])
		if n != nil && n.Initialized && n.Ready && !n.Deleting && !s.stuck[pod.PodRef] {
			if was := s.node(pod.Planned); was != nil && was != n {
				was.Planned = max(0, was.Planned-1)
			}
			s.bind(&pod, n)
			acted = true
			continue
		}
		if n != nil && pod.Planned != n.Name {
			if was := s.node(pod.Planned); was != nil {
				was.Planned = max(0, was.Planned-1)
			}
			pod.Planned = n.Name
			n.Planned++
		}
		waiting = append(waiting, pod)
	}
	s.snap.Pending = waiting
	return acted
}

// scale carries out what is decided about a static pool.
func (s *state) scale(scaling *plan.Scaling) (acted bool) {
	step := Step{At: s.snap.At, Reason: Static}
	for i := range scaling.Launches {
		s.launch(&scaling.Launches[i], &step)
	}
	for _, r := range scaling.Removals {
		if n := s.node(r.Node); n != nil && !n.Deleting {
			step.Remove, step.Evictions = append(step.Remove, s.shown(n)), step.Evictions+n.Evictions()
			s.remove(n)
		}
	}
	if len(step.Launch)+len(step.Remove) == 0 {
		return false
	}
	s.out.Steps = append(s.out.Steps, step)
	return true
}

// disrupt carries out a decision of disruption, in the order in which the controller does.
func (s *state) disrupt(d *plan.Disruption) (acted bool) {
	for i := range d.Undos {
		s.undo(&d.Undos[i])
	}
	for _, r := range d.Unmarks {
		s.open(r.Node)
	}
	for _, r := range d.Marks {
		if n := s.node(r.Node); n != nil {
			n.DisruptedTaint = true
		}
	}
	for _, r := range d.Removals {
		if n := s.node(r.Node); n != nil && !n.Deleting {
			s.remove(n)
		}
	}
	for k, nodes := range [][]string{d.SoftTaints, d.SoftTaintsOver} {
		for _, name := range nodes {
			if n := s.node(name); n != nil {
				n.SoftTaint = k == 0
			}
		}
	}
	for i := range d.Reboots {
		if n := s.node(d.Reboots[i].Node); n != nil { // it is taken to heal
			n.Ailments = nil
		}
	}
	for i := range d.Commands {
		s.begin(&d.Commands[i])
	}
	acted = len(d.Undos)+len(d.Unmarks)+len(d.Marks)+len(d.Removals)+len(d.Reboots)+len(d.Commands) > 0
	if acted {
		s.events++
	}
	return acted
}

// begin begins a command: its nodes get the disruption reason and the taint, and its replacements are launched.
func (s *state) begin(c *plan.Command) {
	step := Step{At: s.snap.At, Reason: c.Reason, id: c.ID}
	target := map[cluster.PodRef]string{}
	for i := range c.Launch {
		name := s.launch(&c.Launch[i], &step)
		for _, ref := range c.Launch[i].Pods {
			target[ref] = name
		}
	}
	for _, m := range c.Moves {
		target[m.Pod] = m.Node
	}
	for _, r := range c.Remove {
		n := s.node(r.Node)
		if n == nil || n.Deleting {
			continue
		}
		step.Remove, step.Evictions = append(step.Remove, s.shown(n)), step.Evictions+n.Evictions()
		n.DisruptionReason, n.DisruptedSince, n.DisruptedTaint = c.Reason, s.snap.At, true
		n.Step, n.StepRemoves, n.StepLaunches = c.ID, len(c.Remove), len(c.Launch)
		n.StepTerminatesFirst = c.TerminateFirst != ""
		n.Reschedulable = slices.Clone(n.Reschedulable)
		for i := range n.Reschedulable {
			n.Reschedulable[i].TargetNode = target[n.Reschedulable[i].PodRef]
		}
	}
	s.out.Steps = append(s.out.Steps, step)
}

// undo undoes a command: unused replacements go, and its nodes are opened.
func (s *state) undo(u *plan.Undo) {
	for _, r := range u.Drop {
		if n := s.node(r.Node); n != nil && !n.Deleting {
			s.remove(n)
		}
	}
	for _, r := range u.Open {
		s.open(r.Node)
	}
	for i := range s.out.Steps {
		if step := &s.out.Steps[i]; step.id == u.Command {
			step.Undone = u.Why.String()
		}
	}
}

// open takes the disruption reason and the taint from a node.
func (s *state) open(name string) {
	n := s.node(name)
	if n == nil {
		return
	}
	n.DisruptionReason, n.DisruptedTaint, n.Step = "", false, ""
	n.StepRemoves, n.StepLaunches, n.StepTerminatesFirst = 0, 0, false
	s.events++
}
