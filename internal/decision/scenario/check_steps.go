package scenario

import (
	"fmt"
	"maps"
	"math"
)

// StepsReport is what is to be said of a plan of mode "consolidate".
type StepsReport struct {
	// PricePerHour is what the nodes cost at the end; Nodes is how many there are.
	PricePerHour float64
	Nodes        int
	// Evictions counts every move of a pod. EvictedAgain counts those of pods that an
	// earlier step had moved.
	Evictions, EvictedAgain int
	// Prices are those after each step, Evicted how many pods were moved by then.
	Prices  []float64
	Evicted []int
	// Violations are the rules that the plan breaks, at whichever step.
	Violations []string
}

// CheckSteps carries a plan of mode "consolidate" out, step by step, and judges the
// cluster after each, knowing nothing of how the steps were found.
func CheckSteps(s *Scenario, p *Plan) StepsReport {
	var report StepsReport
	r := &replayer{judge: newJudge(s), hosts: map[string]*host{}, moved: map[string]map[int]int{}, report: &report}
	if p.Format != PlanFormat || p.Scenario != s.Name || p.Mode != "consolidate" {
		r.violated("the plan is %s of mode %q for %q, not kplan/1 that consolidates %q", p.Format, p.Mode, p.Scenario, s.Name)
		report.Violations = r.judge.report.Violations
		return report
	}
	pods := map[int]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		h := &host{name: n.Name, typ: r.types[n.Type], pool: n.Pool, zone: n.Zone, ct: n.CapacityType, bound: map[int]int{}, added: map[int]int{}}
		for _, share := range n.Pods {
			h.bound[share.Group()] += share.Count()
			pods[share.Group()] += share.Count()
		}
		r.hosts[n.Name] = h
	}
	for i := range p.Steps {
		r.step(i, &p.Steps[i])
		report.Prices, report.Evicted = append(report.Prices, r.price()), append(report.Evicted, report.Evictions)
	}
	for _, h := range r.hosts {
		for g, n := range h.bound {
			pods[g] -= n
		}
	}
	for g, n := range pods {
		if n != 0 {
			r.violated("at the end, %d pods of group %d are lost", n, g)
		}
	}
	report.PricePerHour, report.Nodes = r.price(), len(r.hosts)
	if math.Abs(report.PricePerHour-p.PricePerHour) > 0.001 {
		r.violated("the price at the end is %.4f, the plan says %.4f", report.PricePerHour, p.PricePerHour)
	}
	if p.LowerBoundPerHour > p.PricePerHour+0.001 {
		r.violated("the bound %.4f is above the price %.4f", p.LowerBoundPerHour, p.PricePerHour)
	}
	report.Violations = r.judge.report.Violations
	return report
}

// replayer is the cluster while steps are carried out.
type replayer struct {
	*judge
	hosts  map[string]*host
	moved  map[string]map[int]int // pods that came by a move, by host and group
	report *StepsReport
}

// step carries one step out.
func (r *replayer) step(i int, st *Step) {
	seen := len(r.judge.report.Violations)
	r.launch(st)
	doomed := map[string]bool{}
	for _, name := range st.Delete {
		doomed[name] = true
	}
	away := map[int]int{} // pods by group that are being moved
	for _, m := range st.Moves {
		r.move(m, doomed, away)
	}
	for _, n := range st.Launch {
		if h := r.hosts[n.Name]; h != nil && len(h.added) == 0 {
			r.violated("launch %s: no pod moves to it", n.Name)
		}
	}
	r.pdb(away, len(st.Delete))
	r.judgeHosts(st)
	for _, name := range st.Delete {
		h := r.hosts[name]
		if h == nil {
			r.violated("node %s is deleted, but is not there", name)
			continue
		}
		for g, n := range h.bound {
			if n > 0 {
				r.violated("node %s is deleted with %d pods of group %d", name, n, g)
			}
		}
		delete(r.hosts, name)
	}
	for _, h := range r.hosts {
		for g, n := range h.added {
			h.bound[g] += n
		}
		clear(h.added)
		h.fresh = false
	}
	list := r.judge.report.Violations
	for k := seen; k < len(list); k++ {
		list[k] = fmt.Sprintf("step %d: %s", i, list[k])
	}
}

func (r *replayer) launch(st *Step) {
	for _, n := range st.Launch {
		if r.hosts[n.Name] != nil || r.types[n.Type] == nil || r.pools[n.Pool] == nil {
			r.violated("launch %s: the name is taken, or there is no type %s or pool %s", n.Name, n.Type, n.Pool)
			continue
		}
		h := &host{name: n.Name, typ: r.types[n.Type], pool: n.Pool, zone: n.Zone, ct: n.CapacityType, fresh: true, bound: map[int]int{}, added: map[int]int{}}
		if o, ok := h.offering(); !ok || o.Unavailable {
			r.violated("launch %s: %s cannot be launched in %s as %s", n.Name, n.Type, n.Zone, n.CapacityType)
		}
		r.hosts[n.Name] = h
	}
}

// move takes pods off one node and puts them on another.
func (r *replayer) move(m Move, doomed map[string]bool, away map[int]int) {
	from, to := r.hosts[m.From], r.hosts[m.To]
	switch {
	case from == nil || to == nil || m.Group < 0 || m.Group >= len(r.s.PodGroups) || m.Count < 1:
		r.violated("%d pods of group %d cannot move from %q to %q: there is no such thing", m.Count, m.Group, m.From, m.To)
		return
	case doomed[m.To]:
		r.violated("pods move to %s, which the step deletes", m.To)
	case from.bound[m.Group] < m.Count:
		r.violated("%d pods of group %d move from %s, which has %d", m.Count, m.Group, m.From, from.bound[m.Group])
		return
	case r.s.PodGroups[m.Group].DoNotDisrupt:
		r.violated("pods of group %d move, which must not be disrupted", m.Group)
	}
	from.bound[m.Group] -= m.Count
	to.added[m.Group] += m.Count
	away[m.Group] += m.Count
	r.report.Evictions += m.Count
	if again := min(m.Count, r.moved[m.From][m.Group]); again > 0 {
		r.report.EvictedAgain += again
		r.moved[m.From][m.Group] -= again
	}
	if r.moved[m.To] == nil {
		r.moved[m.To] = map[int]int{}
	}
	r.moved[m.To][m.Group] += m.Count
}

// pdb sees that no group has more pods away at once than it allows. A step that removes
// one node may take longer instead, as long as any may be away.
func (r *replayer) pdb(away map[int]int, deleted int) {
	for g, n := range away {
		allowed := r.s.PodGroups[g].DisruptionsAllowed
		if allowed != nil && n > int(*allowed) && (deleted > 1 || *allowed < 1) {
			r.violated("%d pods of group %d are away at once, %d are allowed", n, g, *allowed)
		}
	}
}

// judgeHosts applies every rule to the cluster as it is when all pods have moved and
// nothing is deleted yet.
func (r *replayer) judgeHosts(st *Step) {
	r.judge.hosts = r.judge.hosts[:0]
	for _, name := range byDomain(r.hosts) {
		h := r.hosts[name]
		r.judge.hosts = append(r.judge.hosts, h)
		if len(h.added) > 0 || h.fresh {
			r.checkHost(h)
		}
	}
	if len(st.Launch) > 0 {
		r.checkLimits()
	}
	// What a node that is going to be deleted has no more pods of is no domain then.
	doomed := map[string]bool{}
	for _, name := range st.Delete {
		doomed[name] = true
	}
	stay := r.judge.hosts[:0]
	for _, h := range r.judge.hosts {
		if !doomed[h.name] {
			stay = append(stay, h)
		}
	}
	r.judge.hosts = stay
	r.checkRules()
}

func (r *replayer) price() float64 {
	sum := 0.0
	for name := range maps.Keys(r.hosts) {
		if o, ok := r.hosts[name].offering(); ok {
			sum += o.Price
		}
	}
	return sum
}
