package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// plan returns Karpenter's answer as a file. The price of a node is that of the cheapest
// offering that its decision leaves open.
func (c *converted) plan(r *scheduling.Results) (*scenario.Plan, error) {
	out := &scenario.Plan{Format: scenario.PlanFormat, Scenario: c.scenario.Name, NewNodes: []scenario.NewNode{}, Existing: []scenario.Existing{}}
	for i, claim := range r.NewNodeClaims {
		typ, offering := cheapest(claim)
		if offering == nil {
			return nil, fmt.Errorf("new node %d: no offering is left", i)
		}
		out.NewNodes = append(out.NewNodes, scenario.NewNode{
			Type: typ.Name, Zone: offering.Zone(), CapacityType: offering.CapacityType(), Pool: claim.NodePoolName, Pods: shares(claim.Pods),
		})
		out.PricePerHour += offering.Price
	}
	for _, n := range r.ExistingNodes {
		if len(n.Pods) > 0 {
			out.Existing = append(out.Existing, scenario.Existing{Node: n.Name(), Pods: shares(n.Pods)})
		}
	}
	var refused []*corev1.Pod
	for p := range r.PodErrors {
		refused = append(refused, p)
	}
	out.Unschedulable = shares(refused)
	return out, nil
}

func cheapest(claim *scheduling.NodeClaim) (*cloudprovider.InstanceType, *cloudprovider.Offering) {
	var typ *cloudprovider.InstanceType
	var best *cloudprovider.Offering
	for _, t := range claim.InstanceTypeOptions {
		for _, o := range t.Offerings.Available().Compatible(claim.Requirements) {
			if best == nil || o.Price < best.Price {
				typ, best = t, o
			}
		}
	}
	return typ, best
}

// shares counts pods by group, in the order of the groups.
func shares(pods []*corev1.Pod) []scenario.Share {
	count := map[int]int{}
	for _, p := range pods {
		g, err := strconv.Atoi(p.Annotations[groupLabel])
		if err != nil {
			g = -1 // the judge will not accept it
		}
		count[g]++
	}
	out := []scenario.Share{}
	for g, n := range count {
		out = append(out, scenario.Share{g, n})
	}
	slices.SortFunc(out, func(a, b scenario.Share) int { return cmp.Compare(a[0], b[0]) })
	return out
}
