package scenario

import "strings"

// After returns the scenario as it is when the steps of a plan have been taken. Moves that CheckSteps
// calls impossible, from or to a node that there is not, are not made.
func (s *Scenario) After(p *Plan) *Scenario {
	out := *s
	pods, nodes := map[string]map[int]int{}, map[string]Node{}
	var order []string
	add := func(n Node) {
		nodes[n.Name], pods[n.Name] = n, map[int]int{}
		for _, share := range n.Pods {
			pods[n.Name][share.Group()] += share.Count()
		}
		order = append(order, n.Name)
	}
	for _, n := range s.Nodes {
		add(n)
	}
	for i := range p.Steps {
		for _, l := range p.Steps[i].Launch {
			add(Node{Name: l.Name, Type: l.Type, Zone: l.Zone, CapacityType: l.CapacityType, Pool: l.Pool})
		}
		for _, m := range p.Steps[i].Moves {
			if pods[m.From] == nil || pods[m.To] == nil {
				continue
			}
			pods[m.From][m.Group] -= m.Count
			pods[m.To][m.Group] += m.Count
		}
		for _, name := range p.Steps[i].Delete {
			delete(nodes, name)
		}
	}
	out.Nodes = nil
	for _, name := range order {
		n, there := nodes[name]
		if !there {
			continue
		}
		n.Pods, n.Name = nil, strings.Replace(n.Name, "new-", "was-", 1) // names are given anew
		for g := range s.PodGroups {
			if k := pods[name][g]; k > 0 {
				n.Pods = append(n.Pods, Share{g, k})
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	return &out
}
