package scenario

import "testing"

// TestNodeDomains moves a pod within the only zone that has nodes. Its spread over zones is broken if the other zone
// counts, in which a node could be launched.
func TestNodeDomains(t *testing.T) {
	t.Parallel()
	s := &Scenario{
		Format: Format, Name: "domains",
		InstanceTypes: []InstanceType{{Name: "t", CPU: 4000, Pods: 10, Offerings: []Offering{{Zone: "a", CapacityType: "spot", Price: 1}, {Zone: "b", CapacityType: "spot", Price: 1}}}},
		NodePools:     []NodePool{{Name: "p"}},
		Nodes: []Node{
			{Name: "n1", Type: "t", Zone: "a", CapacityType: "spot", Pool: "p", Pods: []Share{{0, 1}}},
			{Name: "n2", Type: "t", Zone: "a", CapacityType: "spot", Pool: "p", Pods: []Share{{0, 1}}},
		},
		PodGroups: []PodGroup{{CPU: 1000, Labels: map[string]string{"app": "web"}, Spread: []Spread{{Key: zoneKey, MaxSkew: 1, MatchLabels: map[string]string{"app": "web"}}}}},
	}
	p := &Plan{Format: PlanFormat, Scenario: "domains", Mode: "consolidate", PricePerHour: 1, Steps: []Step{{Moves: []Move{{0, 1, "n1", "n2"}}, Delete: []string{"n1"}}}}
	if r := CheckSteps(s, p); len(r.Violations) == 0 {
		t.Error("a zone in which a node could be launched does not count")
	}
	s.NodeDomains = true
	if r := CheckSteps(s, p); len(r.Violations) > 0 {
		t.Errorf("only zones with nodes count, and yet: %q", r.Violations)
	}
}
