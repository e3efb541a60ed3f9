package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Usage is how much of a resource pods ask for, of what there is for pods: cpu in millicores, memory in
// bytes, pods as a count.
type Usage struct {
	CPUUsed     int64 `json:"cpuUsed"`
	CPU         int64 `json:"cpu"`
	MemoryUsed  int64 `json:"memoryUsed"`
	Memory      int64 `json:"memory"`
	PodsRunning int   `json:"podsRunning"`
	PodsMost    int64 `json:"podsMost"`
}

// add takes in a node.
func (u *Usage) add(n *cluster.Node) {
	u.CPUUsed = quantity.Add(u.CPUUsed, n.Used[quantity.CPU])
	u.CPU = quantity.Add(u.CPU, n.Allocatable[quantity.CPU])
	u.MemoryUsed = quantity.Add(u.MemoryUsed, n.Used[quantity.Memory])
	u.Memory = quantity.Add(u.Memory, n.Allocatable[quantity.Memory])
	u.PodsRunning += podsOf(n)
	u.PodsMost = quantity.Add(u.PodsMost, n.Allocatable[quantity.Pods])
}

// podsOf returns how many pods a node has, those of DaemonSets included.
func podsOf(n *cluster.Node) (pods int) {
	for i := range n.Pods {
		pods += int(n.Pods[i].Count)
	}
	return pods
}

// Price is what nodes cost together. Unpriced is of how many nodes that is not known: they count
// nothing.
type Price struct {
	Hourly         float64 `json:"hourlyDollars"`
	SpotHourly     float64 `json:"spotHourlyDollars"`
	ReservedHourly float64 `json:"reservedHourlyDollars"`
	Unpriced       int     `json:"nodesWithoutPrice"`
}

// SpotShare returns how much of the price is for spot instances.
func (p Price) SpotShare() float64 {
	if p.Hourly <= 0 {
		return 0
	}
	return p.SpotHourly / p.Hourly
}

// add takes in a node of ours.
func (p *Price) add(r *reader, n *cluster.Node) {
	price, known := r.prices.Of(n)
	if !known {
		p.Unpriced++
		return
	}
	p.Hourly += price
	switch n.Labels[label.CapacityType] {
	case label.Spot:
		p.SpotHourly += price
	case label.Reserved:
		p.ReservedHourly += price
	}
}

// Fleet is every node, by pool.
type Fleet struct {
	Head
	Pools []FleetPool `json:"pools"`
}

// FleetPool is the nodes of a NodePool. Name is empty for nodes of none.
type FleetPool struct {
	Name  string `json:"name"`
	Price Price  `json:"price"`
	Usage Usage  `json:"usage"`
	Nodes []Node `json:"nodes"`
}

// Node is one node, or a NodeClaim whose Node is still to come.
type Node struct {
	Name         string `json:"name"`
	Claim        string `json:"claim,omitempty"`
	Pool         string `json:"pool,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// Labels are those that were asked for, as far as the node has them.
	Labels map[string]string `json:"labels,omitempty"`
	// PriceHourly is 0 if HasPrice is false: it is not known.
	PriceHourly float64    `json:"hourlyDollars"`
	HasPrice    bool       `json:"hasPrice"`
	Created     time.Time  `json:"created"`
	Expires     time.Time  `json:"expires,omitzero"`
	Usage       Usage      `json:"usage"`
	Status      Status     `json:"status"`
	Groups      []PodGroup `json:"groups"`
}

// PodGroup is the pods of a workload on a node. CPU and Memory are what they ask for together.
type PodGroup struct {
	Workload
	Pods   int   `json:"pods"`
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

// Free returns the share of a node that is free: of the resource of which less is.
func (n *Node) Free() float64 {
	return min(1-share(n.Usage.CPUUsed, n.Usage.CPU), 1-share(n.Usage.MemoryUsed, n.Usage.Memory))
}

// FreeHourly returns the price of the room that no pod asks for, in dollars an hour: of cpu or memory, what is scarcer.
func (n *Node) FreeHourly() float64 { return n.PriceHourly * n.Free() }

// Nodes returns those of all pools.
func (f *Fleet) Nodes() []*Node {
	var all []*Node
	for i := range f.Pools {
		for k := range f.Pools[i].Nodes {
			all = append(all, &f.Pools[i].Nodes[k])
		}
	}
	return all
}

// share returns which part of a whole is used, at most all.
func share(used, whole int64) float64 {
	if whole <= 0 {
		return 1
	}
	return min(1, max(0, float64(used)/float64(whole)))
}

// ByLabels returns how the labels of nodes are asked for: as By of the question for a fleet.
func ByLabels(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return ByLabel + strings.Join(keys, ",")
}

// LabelsBy returns the labels that are asked for.
func LabelsBy(by string) []string {
	if keys, is := strings.CutPrefix(by, ByLabel); is {
		return strings.Split(keys, ",")
	}
	return nil
}

// FleetOf returns every node, with some of its labels: pools by name, those without a pool last, nodes by name.
func FleetOf(s *State, labels ...string) Fleet { return fleetOf(newReader(s), labels...) }

func fleetOf(r *reader, labels ...string) Fleet {
	f := Fleet{Head: r.head("Fleet"), Pools: []FleetPool{}}
	at := map[string]int{}
	for i := range r.Snapshot.Nodes {
		n := &r.Snapshot.Nodes[i]
		k, ok := at[n.Pool]
		if !ok {
			k = len(f.Pools)
			at[n.Pool] = k
			f.Pools = append(f.Pools, FleetPool{Name: n.Pool})
		}
		p := &f.Pools[k]
		v := r.node(n)
		for _, key := range labels {
			if value, has := n.Labels[key]; has {
				if v.Labels == nil {
					v.Labels = map[string]string{}
				}
				v.Labels[key] = value
			}
		}
		p.Nodes = append(p.Nodes, v)
		p.Usage.add(n)
		if n.Claim != "" {
			p.Price.add(r, n)
		}
	}
	slices.SortFunc(f.Pools, func(a, b FleetPool) int {
		if a.Name == "" || b.Name == "" {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return f
}

// NodeView is one node by itself.
type NodeView struct {
	Head
	Node Node `json:"node"`
}

// NodeOf returns the node of that name, or of the NodeClaim of that name; false: there is none.
func NodeOf(s *State, name string) (NodeView, bool) {
	for i := range s.Snapshot.Nodes {
		if n := &s.Snapshot.Nodes[i]; n.Name == name || n.Claim == name {
			return NodeView{s.head("Node"), newReader(s).node(n)}, true
		}
	}
	return NodeView{}, false
}

// node returns what is shown of a node.
func (r *reader) node(n *cluster.Node) Node {
	v := Node{
		Name: n.Name, Claim: n.Claim, Pool: n.Pool, InstanceType: n.Labels[label.InstanceType], Zone: n.Labels[label.Zone],
		CapacityType: n.Labels[label.CapacityType], Created: n.Created, Expires: n.Expires, Status: r.status(n), Groups: r.groups(n),
	}
	if n.Claim != "" {
		v.PriceHourly, v.HasPrice = r.prices.Of(n)
	}
	v.Usage.add(n)
	return v
}

// groups returns the pods of a node by workload.
func (r *reader) groups(n *cluster.Node) []PodGroup {
	groups, at := []PodGroup{}, map[Workload]int{}
	for i := range n.Pods {
		c := n.Pods[i].Constraints
		w, count := r.workloads.of(c), int64(n.Pods[i].Count)
		k, ok := at[w]
		if !ok {
			k = len(groups)
			at[w] = k
			groups = append(groups, PodGroup{Workload: w})
		}
		g := &groups[k]
		g.Pods += int(count)
		g.CPU = quantity.Add(g.CPU, quantity.Mul(c.Requests[quantity.CPU], count))
		g.Memory = quantity.Add(g.Memory, quantity.Mul(c.Requests[quantity.Memory], count))
	}
	slices.SortFunc(groups, func(a, b PodGroup) int { return a.compare(b.Workload) })
	return groups
}
