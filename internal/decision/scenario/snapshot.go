package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	mebibyte = 1 << 20
	// namespace is the one that all pods are in.
	namespace = "default"
)

// Snapshot returns the cluster that the scenario describes. The UID of a pod is the
// index of its group.
func (s *Scenario) Snapshot(at time.Time) *cluster.Snapshot {
	keys := s.decidedKeys()
	snap := &cluster.Snapshot{At: at, WellKnown: map[string]bool{
		label.Zone: true, label.CapacityType: true, label.InstanceType: true, label.NodePool: true,
	}, Namespaces: map[string]map[string]string{namespace: {}}}
	for _, key := range keys {
		snap.WellKnown[key] = true
	}
	types := make([]*catalog.Type, len(s.InstanceTypes))
	byName := map[string]int{}
	for i := range s.InstanceTypes {
		types[i] = s.InstanceTypes[i].catalogType(keys)
		byName[types[i].Name] = i
	}
	for i := range s.NodePools {
		snap.Pools = append(snap.Pools, s.NodePools[i].pool(types))
	}
	for _, d := range s.DaemonSets {
		snap.Daemons = append(snap.Daemons, cluster.Daemon{Name: namespace + "/" + d.Name, Constraints: &cluster.Constraints{
			Requests:  requests(d.CPU, d.Mem, nil),
			Terms:     []label.Requirements{{}},
			Namespace: namespace,
		}})
	}
	constraintSets := s.constraintSets()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		snap.Nodes = append(snap.Nodes, s.runningNode(n, types[byName[n.Type]], constraintSets))
	}
	for g := range s.PodGroups {
		for k := range s.PodGroups[g].N {
			snap.Pending = append(snap.Pending, cluster.Pod{
				PodRef:  cluster.PodRef{Namespace: namespace, Name: fmt.Sprintf("%06d-%06d", g, k), UID: strconv.Itoa(g)},
				Created: at, Constraints: constraintSets[g],
			})
		}
	}
	snap.PDBs = s.pdbs()
	slices.SortFunc(snap.Pools, func(a, b cluster.Pool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(snap.Daemons, func(a, b cluster.Daemon) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(snap.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	return snap
}

// decidedKeys returns the labels that somebody asks about and that a type has or lacks,
// sorted. What every node has is not among them.
func (s *Scenario) decidedKeys() []string {
	var keys []string
	for i := range s.InstanceTypes {
		for _, r := range s.InstanceTypes[i].Reqs {
			keys = append(keys, r.Key)
		}
	}
	for i := range s.NodePools {
		for _, r := range s.NodePools[i].Requirements {
			keys = append(keys, r.Key)
		}
	}
	for i := range s.PodGroups {
		for key := range s.PodGroups[i].NodeSelector {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		switch key {
		case label.Zone, label.CapacityType, label.InstanceType, label.NodePool, label.Hostname:
			return true
		}
		return false
	})
}

// catalogType returns the type in the core's words. A label that it does not list, a
// node of it does not have.
func (t *InstanceType) catalogType(keys []string) *catalog.Type {
	out := &catalog.Type{
		Name:         t.Name,
		Requirements: label.Requirements{},
		Capacity:     quantity.List{quantity.CPU: t.CPU, quantity.Memory: t.Mem * mebibyte, quantity.Pods: t.Pods},
		Overhead:     quantity.List{quantity.CPU: t.ReservedCPU, quantity.Memory: t.ReservedMem * mebibyte},
	}
	out.Capacity.Add(t.Ext)
	for _, key := range keys {
		out.Requirements[key] = label.DoesNotExist()
	}
	for _, r := range t.Reqs {
		out.Requirements[r.Key] = r.requirement()
	}
	out.Requirements[label.InstanceType] = label.In(t.Name)
	var zones, cts []string
	for _, o := range t.Offerings {
		zones, cts = append(zones, o.Zone), append(cts, o.CapacityType)
		out.Offerings = append(out.Offerings, catalog.Offering{
			Zone: o.Zone, CapacityType: o.CapacityType, PriceHourly: o.Price, Priced: true, Available: !o.Unavailable,
		})
	}
	out.Requirements[label.Zone] = label.In(zones...)
	out.Requirements[label.CapacityType] = label.In(cts...)
	return out
}

func (r *Requirement) requirement() label.Requirement {
	switch label.Operator(r.Op) {
	case label.OpNotIn:
		return label.NotIn(r.Values...)
	case label.OpExists:
		return label.Exists()
	case label.OpDoesNotExist:
		return label.DoesNotExist()
	default:
		return label.In(r.Values...)
	}
}

func (p *NodePool) pool(types []*catalog.Type) cluster.Pool {
	out := cluster.Pool{
		Name: p.Name, Weight: p.Weight, Types: types, Limits: quantity.List{},
		Requirements: label.Requirements{label.NodePool: label.In(p.Name)},
	}
	for _, r := range p.Requirements {
		out.Requirements = out.Requirements.With(r.Key, r.requirement())
	}
	if p.LimitCPU > 0 {
		out.Limits[quantity.CPU] = p.LimitCPU
	}
	if p.LimitMem > 0 {
		out.Limits[quantity.Memory] = p.LimitMem * mebibyte
	}
	return out
}

// constraintSets returns the constraints of each group. Groups that are alike share one.
func (s *Scenario) constraintSets() []*cluster.Constraints {
	constraintSets := make([]*cluster.Constraints, len(s.PodGroups))
	alike := map[string]*cluster.Constraints{}
	for i := range s.PodGroups {
		g := s.PodGroups[i]
		g.Name, g.N, g.DisruptionsAllowed, g.DoNotDisrupt = "", 0, nil, false
		key, err := json.Marshal(g)
		if sh := alike[string(key)]; sh != nil && err == nil {
			constraintSets[i] = sh
			continue
		}
		constraintSets[i] = g.constraints()
		alike[string(key)] = constraintSets[i]
	}
	return constraintSets
}

func (g *PodGroup) constraints() *cluster.Constraints {
	sh := &cluster.Constraints{
		Requests:  requests(g.CPU, g.Mem, g.Ext),
		Terms:     []label.Requirements{label.OfLabels(g.NodeSelector)},
		Namespace: namespace, Labels: g.Labels,
	}
	for _, sp := range g.Spread {
		// All nodes count, whatever the group selects, unless it selects by this very key.
		_, narrowed := g.NodeSelector[sp.Key]
		rule := cluster.Spread{Key: sp.Key, MaxSkew: sp.MaxSkew, Selector: selector(sp.MatchLabels), IgnoreAffinity: !narrowed}
		if sp.Soft {
			sh.Preferences = append(sh.Preferences, cluster.Preference{Spread: &rule})
			continue
		}
		sh.Spread = append(sh.Spread, rule)
	}
	for _, t := range g.Affinity {
		sh.Affinity = append(sh.Affinity, cluster.PodTerm{Key: t.Key, Selector: selector(t.MatchLabels), Namespaces: []string{namespace}})
	}
	for _, t := range g.AntiAffinity {
		sh.AntiAffinity = append(sh.AntiAffinity, cluster.PodTerm{Key: t.Key, Selector: selector(t.MatchLabels), Namespaces: []string{namespace}})
	}
	return sh
}

func selector(labels map[string]string) cluster.Selector {
	return cluster.Selector{Some: true, Requirements: label.OfLabels(labels)}
}

// requests returns what one pod takes of a node, itself included.
func requests(cpu, mem int64, ext map[string]int64) quantity.List {
	return quantity.List{quantity.CPU: cpu, quantity.Memory: mem * mebibyte, quantity.Pods: 1}.Plus(ext)
}

// runningNode returns a running node with its pods.
func (s *Scenario) runningNode(n *Node, t *catalog.Type, constraintSets []*cluster.Constraints) cluster.Node {
	out := cluster.Node{
		Name: n.Name, Pool: n.Pool, Capacity: t.Capacity, Allocatable: t.Allocatable(), Used: quantity.List{},
		Initialized: true, Ready: true,
		Labels: map[string]string{
			label.Zone: n.Zone, label.CapacityType: n.CapacityType, label.InstanceType: n.Type, label.NodePool: n.Pool, label.Hostname: n.Name,
		},
	}
	for key, q := range t.Requirements {
		if _, fixed := out.Labels[key]; !fixed && q.Operator() == label.OpIn {
			out.Labels[key] = q.Values()[0]
		}
	}
	for _, share := range n.Pods {
		sh := constraintSets[share.Group()]
		for range share.Count() {
			out.Used.Add(sh.Requests)
		}
		out.Pods = append(out.Pods, cluster.PodCount{Constraints: sh, Count: int32(share.Count())})
	}
	s.inhabit(&out, n, constraintSets)
	return out
}
