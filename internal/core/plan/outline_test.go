package plan

import (
	"maps"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// TestByPodIsOfWhatIsDone compares plans with one that differs in one point.
func TestByPodIsOfWhatIsDone(t *testing.T) {
	t.Parallel()
	pod := func(name string) cluster.PodRef { return cluster.PodRef{Namespace: "ns", Name: name, UID: "u-" + name} }
	byPod := func(change func(*Plan)) map[cluster.PodRef]string {
		p := &Plan{
			Launches: []Launch{
				{Pool: "a", Types: []string{"m5.large", "c5.large"}, Pods: []cluster.PodRef{pod("x"), pod("y")}, PriceHourly: 0.1},
				{Pool: "b", Types: []string{"m5.xlarge"}, Pods: []cluster.PodRef{pod("z")}, PriceHourly: 0.2},
			},
			Assignments: []Assignment{{Pod: pod("v"), Node: "n1"}},
			Refusals:    []Refusal{{Pod: pod("w"), Why: verdict.Of(verdict.TooMuchEffort, "w", "after %d steps", 7)}},
		}
		change(p)
		return p.ByPod()
	}
	one := byPod(func(*Plan) {})
	for what, c := range map[string]struct {
		change func(*Plan)
		same   bool
	}{
		"the order of launches":        {func(p *Plan) { p.Launches[0], p.Launches[1] = p.Launches[1], p.Launches[0] }, true},
		"the order of a launch's pods": {func(p *Plan) { l := p.Launches[0].Pods; l[0], l[1] = l[1], l[0] }, true},
		"the price":                    {func(p *Plan) { p.Launches[0].PriceHourly = 0.3 }, true},
		"what a refusal says":          {func(p *Plan) { p.Refusals[0].Why.Detail = "after 8 steps" }, true},
		"why a pod is refused":         {func(p *Plan) { p.Refusals[0].Why.Reason = verdict.DecisionFailed }, false},
		"the instance type":            {func(p *Plan) { p.Launches[1].Types = []string{"c5.xlarge"} }, false},
		"the pool":                     {func(p *Plan) { p.Launches[1].Pool = "a" }, false},
		"a pod less":                   {func(p *Plan) { p.Launches[0].Pods = p.Launches[0].Pods[:1] }, false},
		"another node for a pod":       {func(p *Plan) { p.Assignments[0].Node = "n2" }, false},
		"a launch for no pod":          {func(p *Plan) { p.Launches = append(p.Launches, Launch{Pool: "a"}) }, false},
		"nothing":                      {func(p *Plan) { *p = Plan{} }, false},
	} {
		if same := maps.Equal(byPod(c.change), one); same != c.same {
			t.Errorf("%s: what is decided about each pod stays the same: %t", what, same)
		}
	}
}

// TestOutlineOfDisruption compares decisions about disruption with one that differs in one point.
func TestOutlineOfDisruption(t *testing.T) {
	t.Parallel()
	outline := func(change func(*Disruption)) string {
		d := &Disruption{
			Commands: []Command{
				{Reason: Empty, Remove: []Removal{{Node: "n1"}, {Node: "n2"}}, SavingHourly: 1},
				{Reason: Underutilized, Remove: []Removal{{Node: "n3"}}, Launch: []Launch{{Pool: "a", Types: []string{"m5.large"}}}},
			},
			Reboots: []Reboot{{Node: "n4"}},
		}
		change(d)
		return d.Outline()
	}
	one := outline(func(*Disruption) {})
	for what, c := range map[string]struct {
		change func(*Disruption)
		same   bool
	}{
		"the order of commands":    {func(d *Disruption) { d.Commands[0], d.Commands[1] = d.Commands[1], d.Commands[0] }, true},
		"the order of nodes":       {func(d *Disruption) { r := d.Commands[0].Remove; r[0], r[1] = r[1], r[0] }, true},
		"the identity of commands": {func(d *Disruption) { d.Commands[0].ID = "7" }, true},
		"what is saved":            {func(d *Disruption) { d.Commands[0].SavingHourly = 2 }, true},
		"the reason":               {func(d *Disruption) { d.Commands[0].Reason = Drifted }, false},
		"a node":                   {func(d *Disruption) { d.Commands[1].Remove[0].Node = "n5" }, false},
		"no replacement":           {func(d *Disruption) { d.Commands[1].Launch = nil }, false},
		"no reboot":                {func(d *Disruption) { d.Reboots = nil }, false},
	} {
		if same := outline(c.change) == one; same != c.same {
			t.Errorf("%s: the outline stays the same: %t", what, same)
		}
	}
}
