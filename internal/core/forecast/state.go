package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// state is the cluster as it becomes. Its snapshot is its own; what it does not change it shares with the first.
type state struct {
	opts Options
	snap *cluster.Snapshot
	out  Result
	// until is when a node that is launched is initialized, or one that is deleted is gone, by name.
	until  map[string]time.Time
	memory disrupt.Memory
	// events and initialized are the counts that disruption asks for.
	events, initialized uint64
	// searched: since the last change all nodes were searched, and nothing was begun.
	searched bool
	made     int
	prices   *cluster.Prices
	// moving are the pods that were evicted and have no node yet; alike has a pod of each kind as it was on a node.
	moving map[cluster.PodRef]cluster.ReschedulablePod
	alike  map[*cluster.Constraints]cluster.ReschedulablePod
	// stuck are pods that nothing evicts from nodes that are deleted.
	stuck map[cluster.PodRef]bool
}

func newState(snap *cluster.Snapshot, opts Options) *state {
	own := *snap
	own.Nodes, own.Pending, own.Pools = slices.Clone(snap.Nodes), slices.Clone(snap.Pending), slices.Clone(snap.Pools)
	s := &state{
		opts: opts, snap: &own, until: map[string]time.Time{}, moving: map[cluster.PodRef]cluster.ReschedulablePod{},
		alike: map[*cluster.Constraints]cluster.ReschedulablePod{}, prices: cluster.NewPrices(&own),
		stuck: map[cluster.PodRef]bool{},
	}
	for i := range own.Nodes {
		n := &own.Nodes[i]
		for k := range n.Reschedulable {
			s.alike[n.Reschedulable[k].Constraints] = n.Reschedulable[k]
		}
		switch {
		case n.Claim == "":
		case n.Deleting:
			s.until[n.Name] = own.At.Add(opts.Drain)
		case n.InFlight != nil:
			s.answer(n)
			s.until[n.Name] = own.At.Add(opts.Start)
		case !n.Initialized:
			s.until[n.Name] = own.At.Add(opts.Start)
		}
	}
	return s
}

// answer has the cloud answer for an in-flight NodeClaim: it becomes the cheapest that it may be.
func (s *state) answer(n *cluster.Node) {
	pool, ok := s.snap.PoolByName(n.Pool)
	if !ok {
		return
	}
	for _, choice := range catalog.Choices(pool.Types, n.InFlight.Requirements, nil) {
		if slices.Contains(n.InFlight.Types, choice.Type.Name) {
			s.become(n, pool, choice, n.InFlight.Requirements)
			if !n.InFlight.Accepted {
				cluster.Draw(s.snap, choice.Offering)
			}
			n.InFlight = nil
			return
		}
	}
}

// snapshot returns the cluster as it is, which decisions may keep: nodes are not changed in place afterwards.
func (s *state) snapshot() *cluster.Snapshot {
	now := *s.snap
	now.Nodes, now.Pending, now.Pools = slices.Clone(s.snap.Nodes), slices.Clone(s.snap.Pending), slices.Clone(s.snap.Pools)
	return &now
}

// node returns a node by its name, or by that of its NodeClaim; nil: there is none.
func (s *state) node(name string) *cluster.Node {
	i, ok := slices.BinarySearchFunc(s.snap.Nodes, name, func(n cluster.Node, name string) int { return strings.Compare(n.Name, name) })
	if ok {
		return &s.snap.Nodes[i]
	}
	for i := range s.snap.Nodes {
		if s.snap.Nodes[i].Claim == name {
			return &s.snap.Nodes[i]
		}
	}
	return nil
}

// launch adds the node of a launch: the cheapest that it may be. It returns its name; empty: nothing can be launched.
func (s *state) launch(l *plan.Launch, into *Step) string {
	pool, ok := s.snap.PoolByName(l.Pool)
	if !ok {
		return ""
	}
	choices := catalog.Choices(pool.Types, l.Requirements, l.Requests)
	if len(choices) == 0 {
		return ""
	}
	s.made++
	n := cluster.Node{
		Name: fmt.Sprintf("%s-new-%d", l.Pool, s.made), Pool: l.Pool, Created: s.snap.At, LastPodEvent: s.snap.At, Empty: true,
		Disruption: cluster.Disruption{Registered: true, Replaces: l.Replaces},
	}
	n.Claim = n.Name
	s.become(&n, pool, choices[0], l.Requirements)
	s.take(choices[0])
	// Nodes do not all start at the same instant: what the first makes true, the next finds.
	s.until[n.Name] = s.snap.At.Add(s.opts.Start + time.Duration(s.made%apart)*soon)
	at, _ := slices.BinarySearchFunc(s.snap.Nodes, n.Name, func(n cluster.Node, name string) int { return strings.Compare(n.Name, name) })
	s.snap.Nodes = slices.Insert(s.snap.Nodes, at, n)
	into.Launch = append(into.Launch, s.shown(&n))
	s.events++
	return n.Name
}

// become makes a node what a choice is.
func (s *state) become(n *cluster.Node, pool *cluster.Pool, choice catalog.Choice, wanted label.Requirements) {
	n.Labels = map[string]string{}
	for _, decides := range []label.Requirements{choice.Type.Requirements.Intersect(wanted), choice.Offering.Requirements()} {
		for key, r := range decides {
			if value, only := r.Only(); only {
				n.Labels[key] = value
			}
		}
	}
	n.Labels[label.InstanceType], n.Labels[label.Hostname] = choice.Type.Name, n.Name
	n.Taints = pool.Taints
	n.Capacity, n.Allocatable = choice.Type.Capacity, choice.Type.Allocatable()
	for name, limit := range choice.Type.VolumeLimits {
		n.Allocatable[name] = limit
	}
}

// take takes one place of a reservation, and what the node draws on supplies.
func (s *state) take(choice catalog.Choice) {
	cluster.Draw(s.snap, choice.Offering)
	if choice.Offering.Reservation == "" {
		return
	}
	for i := range s.snap.Pools {
		p := &s.snap.Pools[i]
		for k, t := range p.Types {
			if !slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.Reservation == choice.Offering.Reservation }) {
				continue
			}
			less := *t
			less.Offerings = slices.Clone(t.Offerings)
			for o := range less.Offerings {
				if less.Offerings[o].Reservation == choice.Offering.Reservation {
					less.Offerings[o].Left--
				}
			}
			p.Types = slices.Clone(p.Types)
			p.Types[k] = &less
		}
	}
}

// remove has a node go: its pods are pending from now on, for the target nodes that are known. It stays, and is
// drained, as long as pods are there that nothing evicts.
func (s *state) remove(n *cluster.Node) {
	isStuck := false
	for i := range n.Reschedulable {
		r := n.Reschedulable[i]
		isStuck = isStuck || !n.HasGrace && s.isHeld(&r)
		if r.DoNotDisrupt != "" && !n.HasGrace {
			continue // nothing is launched for it
		}
		s.stuck[r.PodRef] = !n.HasGrace && s.isHeld(&r)
		s.moving[r.PodRef] = r
		target := r.TargetNode
		if target != "" && s.node(target) == nil {
			target = ""
		}
		s.snap.Pending = append(s.snap.Pending, cluster.Pod{PodRef: r.PodRef, Created: r.Created, Constraints: r.Constraints, Planned: target})
		if to := s.node(target); to != nil {
			to.Planned++
		}
	}
	slices.SortFunc(s.snap.Pending, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	n.Deleting, n.Empty, n.Pods, n.Reschedulable = true, true, nil, nil
	if !isStuck {
		s.until[n.Name] = s.snap.At.Add(s.opts.Drain)
	}
	s.events++
}

// isHeld reports whether nothing evicts a pod, as far as is known.
func (s *state) isHeld(r *cluster.ReschedulablePod) bool {
	return r.DoNotDisrupt != "" || slices.ContainsFunc(r.PDBs, func(g int) bool { return s.snap.PDBs[g].Allowed <= 0 })
}

// bind puts a pod on a node.
func (s *state) bind(p *cluster.Pod, n *cluster.Node) {
	r, evicted := s.moving[p.PodRef]
	if evicted {
		r.Moved, r.Moves = s.snap.At, r.Moves+1
		delete(s.moving, p.PodRef)
	} else {
		r = s.alike[p.Constraints]
		r.Moved, r.Moves = time.Time{}, 0
	}
	r.PodRef, r.Created, r.Constraints, r.TargetNode = p.PodRef, p.Created, p.Constraints, ""
	n.Reschedulable = append(slices.Clone(n.Reschedulable), r)
	slices.SortFunc(n.Reschedulable, func(a, b cluster.ReschedulablePod) int { return a.Compare(b.PodRef) })
	n.Used = n.Used.Plus(p.Constraints.Requests)
	n.Ports = append(slices.Clip(n.Ports), p.Constraints.Ports...)
	n.Pods = slices.Clone(n.Pods)
	if k := slices.IndexFunc(n.Pods, func(c cluster.PodCount) bool { return c.Constraints == p.Constraints }); k >= 0 {
		n.Pods[k].Count++
	} else {
		n.Pods = append(n.Pods, cluster.PodCount{Constraints: p.Constraints, Count: 1})
	}
	n.Empty, n.LastPodEvent, n.Planned = false, s.snap.At, max(0, n.Planned-1)
	s.events++
}

// shown returns a node as steps have it.
func (s *state) shown(n *cluster.Node) Node {
	price, known := s.prices.Of(n)
	return Node{n.Name, n.Pool, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType], price, known}
}

// price returns what the nodes with NodeClaims cost together, in dollars an hour, as far as that is known.
func (s *state) price() (sum float64) {
	for i := range s.snap.Nodes {
		if n := &s.snap.Nodes[i]; n.Claim != "" {
			price, _ := s.prices.Of(n)
			sum += price
		}
	}
	return sum
}
