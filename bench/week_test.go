package main

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/bench/generate"
	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// TestBrokenRulesOfTheWeek: a step evicts two pods of a workload whose PodDisruptionBudget allows
// one. Karpenter's week counts that, and goes on with the pods where the step puts them. Dovetail's
// ends.
func TestBrokenRulesOfTheWeek(t *testing.T) {
	t.Parallel()
	s := &scenario.Scenario{
		Format: scenario.Format, Name: "small",
		InstanceTypes: []scenario.InstanceType{{
			Name: "t", CPU: 4000, Mem: 8192, Pods: 10,
			Offerings: []scenario.Offering{{Zone: "a", CapacityType: "spot", Price: 0.2}},
		}},
		NodePools: []scenario.NodePool{{Name: "default"}},
		PodGroups: []scenario.PodGroup{{Name: "web", CPU: 500, Mem: 512, DisruptionsAllowed: new(int32(1))}},
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Nodes = append(s.Nodes, scenario.Node{Name: name, Type: "t", Zone: "a", CapacityType: "spot", Pool: "default", Pods: []scenario.Share{{0, 1}}})
	}
	answer := &side{}
	answer.Plan = &scenario.Plan{Format: scenario.PlanFormat, Scenario: "small", Mode: "consolidate", PricePerHour: 0.2, Steps: []scenario.Step{{
		Moves:  []scenario.Move{{Group: 0, Count: 1, From: "n1", To: "n3"}, {Group: 0, Count: 1, From: "n2", To: "n3"}},
		Delete: []string{"n1", "n2"},
	}}}
	answer.steps = scenario.CheckSteps(s, answer.Plan)
	if len(answer.steps.Violations) != 1 {
		t.Fatalf("the judge says %v, want one broken rule", answer.steps.Violations)
	}

	var progress strings.Builder
	theirs := weekRun{runner: runner{progress: &progress}, solver: karpenter, steps: generate.WeekSteps}
	next, err := theirs.move(s, answer)
	if err != nil {
		t.Fatalf("Karpenter's week ends: %v", err)
	}
	if len(next.Nodes) != 1 || countOf(&next.Nodes[0], 0) != 3 {
		t.Errorf("the nodes after it are %+v, want n3 with all 3 pods", next.Nodes)
	}
	if theirs.broken != 1 || theirs.evictions != 2 || theirs.dollars != hours*0.2 {
		t.Errorf("broken %d, evictions %d, dollars %.2f; want 1, 2, 0.10", theirs.broken, theirs.evictions, theirs.dollars)
	}
	if !strings.Contains(progress.String(), "2 pods of group 0 are away at once") {
		t.Errorf("the progress does not say which rule: %q", progress.String())
	}
	ours := weekRun{runner: runner{progress: &progress}, solver: dovetail, steps: generate.WeekSteps}
	if _, err := ours.move(s, answer); err == nil || !strings.Contains(err.Error(), "2 pods of group 0 are away at once") {
		t.Errorf("Dovetail's week goes on with a broken rule: %v", err)
	}

	placed := &side{}
	placed.Plan = &scenario.Plan{Existing: []scenario.Existing{{Node: "n1", Pods: []scenario.Share{{0, 1}}}}}
	placed.judged.Violations = []string{"n1 has too little cpu"}
	if next, err = theirs.place(s, placed); err != nil || theirs.broken != 2 || countOf(&next.Nodes[0], 0) != 2 {
		t.Errorf("a plan that breaks a rule: error %v, broken %d, nodes %+v", err, theirs.broken, next)
	}
	placed.Plan.Existing[0].Node = "nowhere"
	if _, err = theirs.place(s, placed); err == nil {
		t.Error("pods were put on a node that there is not")
	}
}
