package mirror

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// builder builds one snapshot. The lock of the Store is held as long as it lives.
type builder struct {
	store       *Store
	now         time.Time
	constraints *volumeConstraints
	snap        *cluster.Snapshot
}

// Snapshot returns the cluster as it is known now. It is never changed afterwards.
func (s *Store) Snapshot() *cluster.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	expire(s, now)
	s.assignments.giveUp(now)
	b := &builder{store: s, now: now, constraints: newVolumeConstraints(s), snap: &cluster.Snapshot{
		At: now, WellKnown: s.opts.Vocabulary.WellKnown, Namespaces: maps.Clone(s.namespaces), ReservationKey: s.opts.ReservationKey,
	}}
	for _, np := range s.pools.managed() {
		b.snap.Pools = append(b.snap.Pools, s.pools.view(np, now))
	}
	b.snap.Daemons = s.daemons.view(b.snap.Pools)
	b.snap.Buffers = s.buffers.view(now)
	b.addNodes()
	b.reservePreempted()
	b.addPending()
	b.addDevices()
	s.gangs.addTo(b.snap, s.assignments.preempts)
	b.addMovable()
	return b.snap
}

// expire drops what was remembered for too long: NodeClaims that never appeared, reservations
// that are over, plans for nodes that are gone, evictions that nothing has replaced.
func expire(s *Store, now time.Time) {
	s.nodes.expire(now)
	s.evictions.expire(now)
	s.assignments.expire(now)
}
