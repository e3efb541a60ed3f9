package world

import (
	"math"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

const (
	// known is how long after an edit of a static pool what it said before may count.
	known = time.Minute
	// staticShort is for how long a static pool may have fewer NodeClaims than it asks for while the
	// product runs, and staticUnready fewer nodes that take pods: one that never joins is given up after a
	// quarter of an hour, and one that joins late may be the next.
	staticShort, staticUnready = 2 * time.Minute, time.Hour
)

// asked is what a static pool asks for from an instant on.
type asked struct {
	at              time.Time
	replicas, limit int
}

// ask takes note of what a pool asks for from now on.
func (s *statics) ask(np *karpenterv1.NodePool) {
	a := asked{at: s.w.at, replicas: int(*np.Spec.Replicas), limit: math.MaxInt}
	if q, limited := np.Spec.Limits[nodesLimit]; limited {
		a.limit = int(q.Value())
	}
	p := s.of(np.Name)
	p.asks = append(p.asks, a)
	p.shortSince, p.unreadySince = time.Time{}, time.Time{}
}

// now returns what the pool asks for.
func (p *staticPool) now() asked { return p.asks[len(p.asks)-1] }

// lately returns the least and the most that the pool asked for until a moment ago.
func (p *staticPool) lately(at time.Time) (least, most asked) {
	least, most = p.now(), p.now()
	for i := len(p.asks) - 2; i >= 0 && at.Sub(p.asks[i+1].at) < known; i-- {
		a := p.asks[i]
		least.replicas, most.replicas = min(least.replicas, a.replicas), max(most.replicas, a.replicas)
		most.limit = max(most.limit, a.limit)
	}
	return least, most
}

// staticCount is how many NodeClaims of a pool there are: active ones stay, pending ones have a disruption
// reason, initialized ones are active and take pods.
type staticCount struct{ active, pending, deleting, initialized int }

func (n *staticCount) all() int { return n.active + n.pending + n.deleting }

func (s *statics) countOf(pool string) (n staticCount) {
	for _, nc := range cluster.All[*karpenterv1.NodeClaim](s.w.api) {
		if nc.Labels[karpenterv1.NodePoolLabelKey] != pool {
			continue
		}
		switch {
		case nc.DeletionTimestamp != nil:
			n.deleting++
		case !isActive(nc):
			n.pending++
		default:
			n.active++
			if isRebooting(nc) || s.w.checks.isInitialized(nc) {
				n.initialized++
			}
		}
	}
	return n
}

// isActive reports whether a claim is neither deleted nor to be disrupted, but by a reboot.
func isActive(nc *karpenterv1.NodeClaim) bool {
	_, chosen := conditionOf(nc, karpenterv1.ConditionTypeDisruptionReason)
	return nc.DeletionTimestamp == nil && (!chosen || isRebooting(nc))
}

// observe judges each NodeClaim of a static pool as it is created, and takes note of those that others than
// the pool's own scaling take away.
func (s *statics) observe(kind string, was, is client.Object) {
	if kind != "NodeClaim" {
		return
	}
	before, _ := was.(*karpenterv1.NodeClaim)
	after, _ := is.(*karpenterv1.NodeClaim)
	switch {
	case before == nil:
		if p := s.of(after.Labels[karpenterv1.NodePoolLabelKey]); p != nil {
			s.created(p, after)
		}
	case isActive(before) && (after == nil || !isActive(after)):
		if p := s.of(before.Labels[karpenterv1.NodePoolLabelKey]); p != nil && before.Name != p.scaledDown {
			p.lost = append(p.lost, s.w.at)
		}
	case !isActive(before) && after != nil && isActive(after):
		if p := s.of(before.Labels[karpenterv1.NodePoolLabelKey]); p != nil {
			p.kept = append(p.kept, s.w.at)
		}
	}
}

// created: a static pool never has more NodeClaims than its limit, nor more that stay than its
// replicas: what is launched to replace a node comes after that node's disruption reason. That a node stays after
// all may not have been seen yet.
func (s *statics) created(p *staticPool, nc *karpenterv1.NodeClaim) {
	n := s.countOf(p.np.Name)
	_, most := p.lately(s.w.at)
	if n.all() > most.limit {
		s.w.fail("static pool %s has %d claims with %s, its limit is %d", p.np.Name, n.all(), nc.Name, most.limit)
	}
	for i := len(p.kept) - 1; i >= 0 && s.w.at.Sub(p.kept[i]) < blind; i-- {
		n.active--
	}
	if n.active > most.replicas {
		s.w.fail("static pool %s has %d claims with %s that stay, its replicas are %d", p.np.Name, n.active, nc.Name, most.replicas)
	}
}

// isSurplus reports whether a claim may go because its static pool has too many: now, or before others took
// some away that the product may not have seen yet.
func (s *statics) isSurplus(nc *karpenterv1.NodeClaim) bool {
	p := s.of(nc.Labels[karpenterv1.NodePoolLabelKey])
	if p == nil {
		return false
	}
	active := s.countOf(p.np.Name).active
	for i := len(p.lost) - 1; i >= 0 && s.w.at.Sub(p.lost[i]) < blind; i-- {
		active++
	}
	least, _ := p.lately(s.w.at)
	if active <= least.replicas {
		return false
	}
	p.scaledDown = nc.Name
	s.w.count("static nodes scaled down")
	return true
}

// check: a static pool is never short for longer than a launch takes.
func (s *statics) check() {
	acts := s.w.acts()
	for _, sp := range s.pools {
		np, there := cluster.Find[*karpenterv1.NodePool](s.w.api, "", sp.np.Name)
		if !there || np.DeletionTimestamp != nil {
			sp.shortSince, sp.unreadySince = time.Time{}, time.Time{}
			continue
		}
		n, now := s.countOf(np.Name), sp.now()
		blocked := n.all() >= now.limit
		if lasts(s.w, &sp.shortSince, acts && !blocked && n.active+n.pending < now.replicas) > staticShort {
			s.w.fail("static pool %s has %d claims for %s, its replicas are %d: %+v", np.Name, n.active+n.pending, s.w.at.Sub(sp.shortSince), now.replicas, n)
		}
		if lasts(s.w, &sp.unreadySince, !blocked && n.initialized < now.replicas) > staticUnready {
			s.w.fail("static pool %s has %d nodes for %s, its replicas are %d: %+v", np.Name, n.initialized, s.w.at.Sub(sp.unreadySince), now.replicas, n)
		}
	}
}

// isStatic reports whether a pool is static.
func (s *statics) isStatic(pool string) bool { return s.of(pool) != nil }

// isFull reports whether a static pool has no room for a replacement.
func (s *statics) isFull(pool string) bool {
	p := s.of(pool)
	if p == nil {
		return false
	}
	n := s.countOf(pool)
	return n.all() >= p.now().limit
}

// atRest: a static pool has its number of nodes.
func (s *statics) atRest() {
	for _, p := range s.pools {
		name, now := p.np.Name, p.now()
		n := s.countOf(name)
		short := n.active+n.pending < now.replicas && n.all() < now.limit
		if short || n.active > now.replicas {
			s.w.fail("at rest, static pool %s has %+v, its replicas are %d and its limit %d", name, n, now.replicas, now.limit)
		}
	}
}
