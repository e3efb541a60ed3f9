package main

import (
	"math"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// These tests run one after the other: Karpenter keeps the labels that it knows in a set of the process, which convert adds to.

// small returns a scenario of two types in which pods want two cores each.
func small(pending int, nodes ...scenario.Node) *scenario.Scenario {
	offerings := func(price float64) []scenario.Offering {
		return []scenario.Offering{
			{Zone: "a", CapacityType: "on-demand", Price: price},
			{Zone: "b", CapacityType: "on-demand", Price: price},
			{Zone: "b", CapacityType: "spot", Price: price / 2},
		}
	}
	return &scenario.Scenario{
		Format: scenario.Format, Name: "small",
		InstanceTypes: []scenario.InstanceType{
			{Name: "m.large", CPU: 4000, Mem: 8192, Pods: 10, ReservedCPU: 100, Offerings: offerings(0.1)},
			{Name: "m.xlarge", CPU: 8000, Mem: 16384, Pods: 10, ReservedCPU: 100, Offerings: offerings(0.15), Reqs: []scenario.Requirement{{Key: "big", Op: "In", Values: []string{"yes"}}}},
		},
		NodePools:  []scenario.NodePool{{Name: "default", LimitCPU: 64000, Requirements: []scenario.Requirement{{Key: "karpenter.sh/capacity-type", Op: "In", Values: []string{"on-demand"}}}}},
		DaemonSets: []scenario.DaemonSet{{Name: "agent", CPU: 100, Mem: 64}},
		Nodes:      nodes,
		PodGroups: []scenario.PodGroup{
			{N: pending, CPU: 1800, Mem: 1024, Labels: map[string]string{"app": "web"}, Spread: []scenario.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 1, MatchLabels: map[string]string{"app": "web"}}}},
			{N: min(1, pending), CPU: 1000, Mem: 1024, NodeSelector: map[string]string{"big": "yes"}},
			{N: min(1, pending), CPU: 9000, Mem: 1024},
		},
	}
}

// TestSolve: the plan keeps every rule of the judge's, and refuses what fits nowhere.
func TestSolve(t *testing.T) {
	s := small(4)
	r, err := solve(s, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	judged := scenario.Check(s, r.Plan)
	if len(judged.Violations) > 0 || judged.WronglyRefused > 0 || len(r.Plan.Unschedulable) != 1 {
		t.Errorf("%+v\n%+v", judged, r.Plan)
	}
	if r.CPUSeconds <= 0 || r.Allocs == 0 || r.PeakBytes < r.StartBytes || r.Runs < 2 {
		t.Errorf("cost is %+v", r.Cost)
	}
}

// TestConsolidate: of three nodes with one pod each, one is enough.
func TestConsolidate(t *testing.T) {
	node := func(name, zone string) scenario.Node {
		return scenario.Node{Name: name, Type: "m.large", Zone: zone, CapacityType: "on-demand", Pool: "default", Pods: []scenario.Share{{0, 1}}}
	}
	s := small(0, node("n1", "a"), node("n2", "a"), node("n3", "a"), node("n4", "b"))
	s.PodGroups[0].Spread = nil
	r, err := solve(s, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	judged := scenario.CheckSteps(s, r.Plan)
	if len(judged.Violations) > 0 || math.Abs(judged.PricePerHour-0.15) > 1e-9 && math.Abs(judged.PricePerHour-0.2) > 1e-9 || judged.Evictions == 0 {
		t.Errorf("%+v\n%+v", judged, r.Plan)
	}
	if r.Note != "" {
		t.Errorf("it was %s", r.Note)
	}
}

// TestProvision: a pending pod goes to the node that has room for it, and the next one gets a new node.
func TestProvision(t *testing.T) {
	s := small(2, scenario.Node{Name: "n1", Type: "m.large", Zone: "a", CapacityType: "on-demand", Pool: "default", Pods: []scenario.Share{{0, 1}}})
	s.PodGroups = s.PodGroups[:1]
	s.PodGroups[0].Spread = nil
	r, err := solve(s, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	judged := scenario.Check(s, r.Plan)
	if len(judged.Violations) > 0 || len(r.Plan.Existing) != 1 || r.Plan.Existing[0].Node != "n1" || len(r.Plan.NewNodes) != 1 {
		t.Errorf("%+v\n%+v", judged, r.Plan)
	}
}
