package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// Answer returns the plan for a snapshot as kplan/1, without its times. A launch leaves
// several types open; the node named is its cheapest offering. The UID of each pod must
// be the index of its group.
func Answer(name string, snap *cluster.Snapshot, p *plan.Plan) (*Plan, error) {
	out := &Plan{
		Format: PlanFormat, Scenario: name, LowerBoundPerHour: p.BoundHourly,
		NewNodes: []NewNode{}, Existing: []Existing{}, Unschedulable: []Share{},
	}
	if p.Resilience.IsKnown() {
		out.Resilience = p.Resilience.String()
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		choice, err := Cheapest(snap, l)
		if err != nil {
			return nil, fmt.Errorf("launch %d: %w", i, err)
		}
		out.PricePerHour += choice.Offering.PriceHourly
		shares, err := sharesOf(l.Pods)
		if err != nil {
			return nil, fmt.Errorf("launch %d: %w", i, err)
		}
		out.NewNodes = append(out.NewNodes, NewNode{
			Type: choice.Type.Name, Zone: choice.Offering.Zone, CapacityType: choice.Offering.CapacityType, Pool: l.Pool, Pods: shares,
		})
	}
	onNode := map[string][]cluster.PodRef{}
	for _, at := range p.Assignments {
		onNode[at.Node] = append(onNode[at.Node], at.Pod)
	}
	for _, node := range slices.Sorted(maps.Keys(onNode)) {
		shares, err := sharesOf(onNode[node])
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node, err)
		}
		out.Existing = append(out.Existing, Existing{Node: node, Pods: shares})
	}
	refused := make([]cluster.PodRef, len(p.Refusals))
	for i := range p.Refusals {
		refused[i] = p.Refusals[i].Pod
	}
	shares, err := sharesOf(refused)
	if err != nil {
		return nil, err
	}
	out.Unschedulable = append(out.Unschedulable, shares...)
	return out, nil
}

// Cheapest returns the cheapest offering of a launch.
func Cheapest(snap *cluster.Snapshot, l *plan.Launch) (catalog.Choice, error) {
	pool, ok := snap.PoolByName(l.Pool)
	if !ok {
		return catalog.Choice{}, fmt.Errorf("there is no pool %s", l.Pool)
	}
	// The first type named is the cheapest, so mostly nothing else need be looked at.
	var first []*catalog.Type
	for _, t := range pool.Types {
		if len(l.Types) > 0 && t.Name == l.Types[0] {
			first = append(first, t)
		}
	}
	choices := catalog.Choices(first, l.Requirements, l.Requests)
	if len(choices) == 0 || choices[0].Offering.PriceHourly != l.PriceHourly {
		choices = catalog.Choices(pool.Types, l.Requirements, l.Requests)
	}
	if len(choices) == 0 {
		return catalog.Choice{}, fmt.Errorf("pool %s has no offer for it", l.Pool)
	}
	return choices[0], nil
}

// sharesOf counts pods by group, in the order of the groups.
func sharesOf(pods []cluster.PodRef) ([]Share, error) {
	count := map[int]int{}
	for _, p := range pods {
		g, err := strconv.Atoi(p.UID)
		if err != nil {
			return nil, fmt.Errorf("pod %s has no group: %w", p, err)
		}
		count[g]++
	}
	shares := []Share{} // a node for chunks of buffers has none
	for g, n := range count {
		shares = append(shares, Share{g, n})
	}
	slices.SortFunc(shares, func(a, b Share) int { return cmp.Compare(a[0], b[0]) })
	return shares, nil
}
