package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// forceAhead is how long before a pod is ended by force another machine is looked for.
const forceAhead = 2 * time.Minute

// Snapshot returns the cluster as it is known now.
func (s *Store) Snapshot() *cluster.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	s.expire(now)
	s.giveUp(now)
	snap := &cluster.Snapshot{At: now, WellKnown: s.opts.Vocabulary.WellKnown, Namespaces: maps.Clone(s.namespaces), ReservationKey: s.opts.ReservationKey}
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		if np := s.pools[name]; s.opts.Manages(classOf(np).Group, classOf(np).Kind) {
			snap.Pools = append(snap.Pools, s.pool(np, now))
		}
	}
	snap.Daemons = s.daemonShapes(snap.Pools)
	s.machines(snap, now)
	s.keepPromises(snap)
	shaper := s.newShaper()
	s.pending(snap, shaper, now)
	s.addGangs(snap)
	s.residents(snap, shaper, now)
	return snap
}

// Asking returns how many pods ask for a node.
func (s *Store) Asking() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.unbound {
		if s.asks(p) {
			n++
		}
	}
	return n
}

// PoolObject returns the NodePool of that name as last seen.
func (s *Store) PoolObject(name string) (*karpenterv1.NodePool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	np, ok := s.pools[name]
	return np, ok
}

// PodObject returns a pod as last seen.
func (s *Store) PodObject(ref cluster.PodRef) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[types.UID(ref.UID)]
	if !ok {
		return nil, false
	}
	return p.Pod, true
}

// expire drops what was remembered for too long: claims that never showed up,
// nominations that are over, pods' meanings whose machine is gone.
func (s *Store) expire(now time.Time) {
	for name, c := range s.claims {
		if !c.assumedUntil.IsZero() && now.After(c.assumedUntil) {
			delete(s.claims, name)
			s.listed = nil
		}
	}
	maps.DeleteFunc(s.nominated, func(_ string, until time.Time) bool { return now.After(until) })
	maps.DeleteFunc(s.evicted, func(_ types.UID, e evicted) bool { return now.Sub(e.last) >= movedKept })
	maps.DeleteFunc(s.planned, func(_ types.UID, machine string) bool {
		_, isNode := s.nodes[machine]
		_, isClaim := s.claims[machine]
		return !isNode && !isClaim
	})
}

func (s *Store) pool(np *karpenterv1.NodePool, now time.Time) cluster.Pool {
	known, ok := s.types[classOf(np)]
	p := translate.Pool(np, s.shortages.Types(known.types, now), now)
	if p.Unready == "" && known.err != nil {
		p.Unready = "instance types are not known: " + known.err.Error()
	}
	if p.Unready == "" && !ok {
		p.Unready = "instance types are not known yet"
	}
	return p
}

// machines adds every Node, and every claim that has none yet, in the order of names.
func (s *Store) machines(snap *cluster.Snapshot, now time.Time) {
	plannedFor := map[string]int{}
	for _, machine := range s.planned {
		plannedFor[machine]++
	}
	all := s.list()
	snap.Nodes = make([]cluster.Node, len(all))
	for i, m := range all {
		s.refresh(m, now)
		n := &snap.Nodes[i]
		*n = m.made
		if np := s.pools[n.Pool]; m.claim != nil && np != nil && translate.Static(np) {
			ageless := translate.Ageless(m.claim.NodeClaim)
			n.Expires, n.Reclaimed = translate.Expires(ageless), translate.Reclaimed(ageless)
		}
		s.attach(n, m)
		s.reserve(n, plannedFor, now)
	}
}

// unclaimed tells whether a Node without a claim is one that a claim of ours will
// account for: it counts only once the two are known to belong together.
func (s *Store) unclaimed(n *corev1.Node) bool {
	if n.Spec.ProviderID == "" && n.Labels[karpenterv1.NodePoolLabelKey] != "" {
		return true
	}
	ours := false
	for key := range n.Labels {
		group, kind, _ := strings.Cut(key, "/")
		ours = ours || s.opts.Manages(group, kind)
	}
	return ours && n.Labels[karpenterv1.NodeRegisteredLabelKey] != karpenterv1.LabelValueTrue
}

// settle has a machine say what its pods mean for it.
func (s *Store) settle(m *machine, now time.Time) {
	n := &m.made
	n.Used, n.UsedByDaemons, n.Empty = quantity.List{}, quantity.List{}, true
	n.Ports, n.Daemons, n.Pods = nil, nil, nil
	if n.HeldByPods {
		n.Held, n.HeldByPods = "", false
	}
	m.claiming = false
	running := map[*sharedShape]*cluster.PodCount{}
	for _, p := range s.byNode[m.name] {
		s.countPod(running, p, n.Leaving && s.willMove(p.Pod, n.Deadline, now))
		n.Used.Add(p.shape.Requests)
		n.Ports = append(n.Ports, p.shape.Ports...)
		if translate.OwnedByDaemonSet(p.Pod) {
			n.UsedByDaemons.Add(p.shape.Requests)
			n.Daemons = append(n.Daemons, daemonOf(p.Pod))
		}
		if translate.Reschedulable(p.Pod) {
			n.Empty = false
		}
		if n.Held == "" && translate.Active(p.Pod) && translate.DoNotDisrupt(p.Pod, now).Active {
			n.HeldByPods = true
			n.Held = fmt.Sprintf("pod %s/%s has annotation %s", p.Namespace, p.Name, karpenterv1.DoNotDisruptAnnotationKey)
		}
		m.claiming = m.claiming || p.claims
	}
	slices.Sort(n.Daemons)
	for _, sh := range slices.SortedFunc(maps.Keys(running), func(a, b *sharedShape) int { return cmp.Compare(a.key, b.key) }) {
		n.Pods = append(n.Pods, *running[sh])
	}
	n.Ports, n.Daemons, n.Pods, n.Taints = slices.Clip(n.Ports), slices.Clip(n.Daemons), slices.Clip(n.Pods), slices.Clip(n.Taints)
}

// reserve says how many pods are meant for a machine that are not there.
func (s *Store) reserve(m *cluster.Node, plannedFor map[string]int, now time.Time) {
	m.Planned = plannedFor[m.Name]
	if m.Claim != m.Name {
		m.Planned += plannedFor[m.Claim]
	}
	until := s.nominated[m.Name]
	if c := s.nominated[m.Claim]; m.Claim != "" && c.After(until) {
		until = c
	}
	if until.After(now) {
		m.Planned, m.PlannedUntil = max(m.Planned, 1), until
	}
}

// countPod adds a running pod to the counts by shape, unless it is planned for elsewhere.
func (s *Store) countPod(running map[*sharedShape]*cluster.PodCount, p *pod, moves bool) {
	if moves {
		return
	}
	c := running[p.shape]
	if c == nil {
		c = &cluster.PodCount{Shape: p.shape.Shape}
		running[p.shape] = c
	}
	c.Count++
	if translate.Terminating(p.Pod) {
		c.Leaving++
	}
}

// pending adds the pods that ask for a node, and those whose node is going.
func (s *Store) pending(snap *cluster.Snapshot, shaper *shaper, now time.Time) {
	add := func(p *pod, planned string) {
		shape, _ := shaper.shape(p)
		snap.Pending = append(snap.Pending, cluster.Pod{
			PodRef: translate.PodRef(p.Pod), Created: p.CreationTimestamp.Time, Planned: planned, Shape: shape, Gang: s.gangOf(p),
		})
	}
	for uid, p := range s.unbound {
		if s.asks(p) {
			add(p, s.planned[uid])
		}
	}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !n.Leaving {
			continue
		}
		for _, p := range s.byNode[n.Name] {
			if s.willMove(p.Pod, n.Deadline, now) {
				add(p, cmp.Or(s.planned[p.UID], p.homeBy(n.Step)))
			}
		}
	}
	slices.SortFunc(snap.Pending, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// willMove tells whether a pod on a node that is going will want another one soon: it is
// not held where it is for good, or it is about to be ended by force.
func (s *Store) willMove(p *corev1.Pod, deadline, now time.Time) bool {
	if !translate.Reschedulable(p) {
		return false
	}
	forced := !deadline.IsZero() && now.Add(forceAhead).After(deadline.Add(-translate.Grace(p)))
	return forced || translate.Disruptable(p, now) && !s.pinned(p)
}

// Draining tells whether a machine is going, so that its pods may want another.
func (s *Store) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		if c.DeletionTimestamp != nil {
			return true
		}
	}
	for _, n := range s.nodes {
		if n.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// ClaimObject returns a claim as last seen.
func (s *Store) ClaimObject(name string) (*karpenterv1.NodeClaim, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.claims[name]
	if !ok {
		return nil, false
	}
	return c.NodeClaim, true
}

// NodeObject returns a Node as last seen.
func (s *Store) NodeObject(name string) (*corev1.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[name]
	return n, ok
}
