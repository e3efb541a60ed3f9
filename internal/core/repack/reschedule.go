package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// Reschedule puts unplaced pods on the nodes of the session, in the order of Rank, as far as it
// finds room. It reports whether none is left.
func (s *Rescheduler) Reschedule() bool {
	all := true
	s.inv.model.Meter.Spend(1 + len(s.inv.size)/classesUnit)
	for _, c := range s.inv.size {
		if s.nodes.unplaced[c] > 0 {
			s.reschedule(c)
			all = all && s.nodes.unplaced[c] == 0
		}
	}
	return all
}

// RescheduleOrFail is Reschedule that stops at the first class for which it does not find room.
func (s *Rescheduler) RescheduleOrFail() bool {
	s.inv.model.Meter.Spend(1 + len(s.inv.size)/classesUnit)
	for _, c := range s.inv.size {
		if s.nodes.unplaced[c] > 0 {
			s.reschedule(c)
			if s.nodes.unplaced[c] > 0 {
				return false
			}
		}
	}
	return true
}

const (
	// searchMax is how many nodes with room are compared for a pod.
	searchMax = 32
	// visitsMax bounds the search for them, in nodes of the tree of vacancies.
	visitsMax = 2000
	// yieldShare is the factor by which on-demand nodes suit pods less that leave them to others.
	yieldShare = 0.1
	// classesUnit is how many classes are checked for unplaced pods for a unit of effort.
	classesUnit = 16
)

// reschedule finds room for the unplaced pods of a class. Of the first few nodes with room, each pod
// goes to the one whose free resources it takes most evenly. It goes to an on-demand node that
// others need only if that is by far the best.
func (s *Rescheduler) reschedule(c int32) {
	if s.room[c].known && s.room[c].hosts[0] < 0 {
		return
	}
	if cl := &s.inv.classes[c]; s.nodes.unplaced[c] > 1 && len(cl.Keys) == 0 && len(cl.Constraints.Ports) == 0 {
		s.rescheduleAlike(c)
		return
	}
	want := s.nodes.vacancies.request(s.inv.classes[c].Need)
	for s.nodes.unplaced[c] > 0 {
		best, bestEven, seen, visits := -1, -1.0, 0, visitsMax
		s.inv.model.Meter.Spend(1 + searchMax)
		judged := judged{s: s, class: int(c)}
		for at := s.nodes.vacancies.next(0, want, &visits); at >= 0 && seen < searchMax; at = s.nodes.vacancies.next(at+1, want, &visits) {
			h := int(s.nodes.vacancies.host[at])
			if !s.nodes.isOpenTo(c, h) || !judged.allow(&s.nodes.hosts[h].place) {
				continue
			}
			seen++
			if even := s.suits(c, h); even > bestEven {
				best, bestEven = h, even
			}
		}
		if best < 0 {
			return
		}
		s.nodes.add(c, best, 1)
	}
}

// rescheduleAlike is reschedule for several pods without host ports or rules between pods. When a
// pod is placed only the room on its node changes, so only that node is compared anew.
func (s *Rescheduler) rescheduleAlike(c int32) {
	type candidate struct {
		host int32
		even float64
	}
	var buffer [searchMax]candidate
	want, seen, at, visits := s.nodes.vacancies.request(s.inv.classes[c].Need), buffer[:0], -1, visitsMax
	for s.nodes.unplaced[c] > 0 {
		s.inv.model.Meter.Spend(1)
		for len(seen) < searchMax && at < len(s.nodes.vacancies.host) {
			if at = s.nodes.vacancies.next(at+1, want, &visits); at < 0 {
				at = len(s.nodes.vacancies.host) // there are no more, or visits is used up
				break
			}
			if h := s.nodes.vacancies.host[at]; s.nodes.isOpenTo(c, int(h)) {
				seen = append(seen, candidate{h, s.suits(c, int(h))})
			}
		}
		best, bestEven := -1, -1.0
		for i := range seen {
			if seen[i].even > bestEven {
				best, bestEven = i, seen[i].even
			}
		}
		if best < 0 {
			return
		}
		h := int(seen[best].host)
		s.nodes.add(c, h, 1)
		if s.inv.fits(c, s.nodes.hosts[h].free) {
			seen[best].even = s.suits(c, h)
			continue
		}
		if seen = slices.Delete(seen, best, best+1); visits <= 0 { // others may be found without it
			seen, at, visits = seen[:0], -1, visitsMax
		}
	}
}

// suits returns how well a pod of a class suits what is free on a node.
func (s *Rescheduler) suits(c int32, h int) float64 {
	even := s.inv.evenness(c, s.nodes.hosts[h].free)
	if s.inv.yields[c] && !s.nodes.hosts[h].spot {
		even *= yieldShare
	}
	return even
}

// judged remembers for a few domains whether rules between pods allow a pod of a class there, as
// long as nothing changes, so that nodes that are alike are not checked again.
type judged struct {
	s      *Rescheduler
	class  int
	places [4]*topology.Place
	ok     [4]bool
	n      int
}

// allow reports whether rules between pods allow a pod in the domains.
func (j *judged) allow(at *topology.Place) bool {
	if len(j.s.inv.classes[j.class].Keys) == 0 {
		return true
	}
	if j.s.inv.ledger.MindsHosts(j.class) { // none are alike
		return j.s.inv.mayJoin(int32(j.class), at)
	}
	for i, o := range j.places[:j.n] {
		if j.s.inv.ledger.Alike(j.class, o, at) {
			return j.ok[i]
		}
	}
	ok := j.s.inv.mayJoin(int32(j.class), at)
	if j.n < len(j.places) {
		j.places[j.n], j.ok[j.n] = at, ok
		j.n++
	}
	return ok
}

// Put puts up to most unplaced pods of a class on a node, as far as all rules allow, and returns
// how many.
func (s *Rescheduler) Put(c int32, h int, most int32) int32 {
	n := int32(0)
	for n < most && quantity.Times(s.nodes.hosts[h].free, s.inv.none, s.inv.classes[c].Need, 1) > 0 && s.nodes.mayTake(c, h) {
		s.nodes.add(c, h, 1)
		n++
	}
	return n
}

// Admit lets Reschedule and Put use the nodes that were launched since the mark, until Close.
func (s *Rescheduler) Admit(mark int) {
	for _, e := range s.nodes.log[mark:] {
		host := &s.nodes.hosts[e.host]
		if e.kind != changeLaunch || host.gone || host.taken {
			continue
		}
		host.taken = true
		s.nodes.vacancies.push(e.host)
		s.nodes.updateVacancy(int(e.host))
		for c := range s.room {
			if r := &s.room[c]; r.known && r.hosts[1] < 0 && s.inv.fits(int32(c), host.free) {
				r.known = false
			}
		}
	}
}

// Rank sets the order in which nodes are given pods. Nodes that are not in the list get none.
func (s *Rescheduler) Rank(hosts []int32) { s.rank(hosts) }

// rank is Rank; nil ranks all nodes in the order of the snapshot.
func (s *Rescheduler) rank(hosts []int32) {
	if hosts == nil {
		for h := range s.nodes.hosts {
			hosts = append(hosts, int32(h))
		}
	}
	clear(s.room)
	s.nodes.vacancies.reset(hosts, s.nodes.largest)
	for _, h := range hosts {
		s.nodes.updateVacancy(int(h))
	}
	s.nodes.vacancies.build()
}

// Rescheduler puts unplaced pods on the nodes of the session.
type Rescheduler struct {
	inv   *Inventory
	nodes *Nodes
	room  []firstRoom // by class
}

// reservePending takes room for the pending pods, as far as there is any.
func (s *Rescheduler) reservePending(at map[*cluster.Constraints]int32) {
	for i := range s.inv.model.Snapshot.Pending {
		s.nodes.unplaced[at[s.inv.model.Snapshot.Pending[i].Constraints]]++
	}
	if len(s.inv.model.Snapshot.Pending) == 0 {
		return
	}
	s.Reschedule()
	clear(s.nodes.unplaced)
	s.nodes.log = s.nodes.log[:0]
}

// MayLeave reports whether each pod of the node, by itself, may have room elsewhere.
func (s *Rescheduler) MayLeave(h int) bool {
	for _, list := range [][]Share{s.nodes.hosts[h].own, s.nodes.hosts[h].added} {
		for _, sh := range list {
			room := s.roomFor(sh.Class)
			if room[0] < 0 || int(room[0]) == h && room[1] < 0 {
				return false
			}
		}
	}
	return true
}

// firstRoom is the first two nodes that have room for a class; -1: there is none. As long as the
// order of the nodes stays, room only shrinks (Undo restores no more than there was), so once
// there is none there is none later.
type firstRoom struct {
	hosts [2]int32
	known bool
}

// roomFor returns the first two nodes that have room for a class. It must be called between changes
// only.
func (s *Rescheduler) roomFor(c int32) [2]int32 {
	r := &s.room[c]
	need := s.inv.classes[c].Need
	if r.known && s.nodes.vacancies.holds(r.hosts[0], need) && s.nodes.vacancies.holds(r.hosts[1], need) {
		return r.hosts
	}
	*r = firstRoom{[2]int32{-1, -1}, true}
	want, visits, at := s.nodes.vacancies.request(need), visitsMax, -1
	for k := range r.hosts {
		if at = s.nodes.vacancies.next(at+1, want, &visits); at < 0 {
			break
		}
		r.hosts[k] = s.nodes.vacancies.host[at]
	}
	return r.hosts
}

// Probe finds out for which classes there is no room left, so that Reschedule does not search for
// it again. It does nothing during a change, which may be undone.
func (s *Rescheduler) Probe() {
	if len(s.nodes.log) > s.nodes.kept {
		return
	}
	for c := range s.inv.classes {
		s.roomFor(int32(c))
	}
}

// PutAll puts unplaced pods where the moves say, and subtracts from each move the pods that were
// put there. Rules between pods may require another order, so it goes through all moves again as
// long as one of them makes progress.
func (s *Rescheduler) PutAll(moves []Move) {
	for progress := true; progress; {
		progress = false
		for i := range moves {
			m := &moves[i]
			n := s.Put(m.Class, int(m.Host), min(m.N, s.nodes.unplaced[m.Class]))
			m.N -= n
			progress = progress || n > 0
		}
	}
}
