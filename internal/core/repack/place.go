package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// change is one entry of the log by which changes are taken back.
type change struct {
	kind  changeKind
	host  int32
	class int32
	n     int32
}

type changeKind uint8

const (
	changeAdd changeKind = iota
	changeRemove
	changeLaunch
	changeRelease
)

// Begin starts a change and returns where it starts, for Undo and Keep.
func (s *Nodes) Begin() int {
	s.change++
	return len(s.log)
}

// Change returns the number of the change under way.
func (s *Nodes) Change() int32 { return s.change }

// Undo takes back everything since the mark.
func (s *Nodes) Undo(mark int) {
	for i := len(s.log) - 1; i >= mark; i-- {
		switch e := s.log[i]; e.kind {
		case changeAdd:
			s.takeBack(e)
		case changeRemove:
			s.putBack(int(e.host))
		case changeLaunch:
			s.unbuy()
		case changeRelease:
			s.release(int(e.host), -1)
		}
	}
	s.log, s.kept = s.log[:mark], min(s.kept, mark)
	clear(s.unplaced)
}

// Keep makes everything since the mark final, as far as later marks go: what removed
// nodes held of their pools' limits is free from then on.
func (s *Nodes) Keep(mark int) {
	for _, e := range s.log[mark:] {
		if e.kind == changeRemove {
			s.release(int(e.host), 1)
			s.log = append(s.log, change{kind: changeRelease, host: e.host})
		}
	}
	s.kept = len(s.log)
}

// release gives back to the limits what a node of a pool held; -1 takes it again.
func (s *Nodes) release(h int, sign int64) {
	host := &s.hosts[h]
	if host.node == nil {
		b := &s.inv.offerings[host.bin]
		b.pool.ReturnLimits(b.pool.Types[b.typ].Amounts, sign)
		return
	}
	for _, p := range s.inv.model.Pools {
		if p.NodePool.Name == host.node.Pool {
			p.ReturnLimits(s.inv.model.Space.Vector(host.node.Capacity), sign)
		}
	}
}

// Remove takes a node away. Its pods are unplaced until Reschedule and LaunchFor find them others.
func (s *Nodes) Remove(h int) {
	host := &s.hosts[h]
	host.gone = true
	s.vacancies.set(h, nil)
	for _, sh := range host.own {
		s.unplaced[sh.Class] += sh.N
	}
	for _, sh := range host.added {
		s.unplaced[sh.Class] += sh.N
		s.inv.ledger.Count(int(sh.Class), &host.place, -sh.N, 0)
	}
	s.countAll(host, -1)
	s.log = append(s.log, change{kind: changeRemove, host: int32(h)})
}

// putBack undoes Remove.
func (s *Nodes) putBack(h int) {
	host := &s.hosts[h]
	host.gone = false
	s.reslot(h)
	for _, sh := range host.added {
		s.inv.ledger.Count(int(sh.Class), &host.place, sh.N, 0)
	}
	s.countAll(host, 1)
}

// countAll adds the pods that the node came with to the ledger, or takes them out. One that
// is there keeps its domains in every spread: it goes only when its pods are elsewhere.
func (s *Nodes) countAll(host *host, sign int32) {
	if len(s.inv.ledger.Keys()) == 0 {
		return
	}
	if host.node == nil {
		if sign > 0 {
			s.appear(&host.place)
		} else {
			s.vanish(&host.place)
		}
		return
	}
	for i := range host.node.Pods {
		p := &host.node.Pods[i]
		s.inv.ledger.Count(s.inv.fills.index[p.Constraints], &host.place, sign*p.Count, sign*p.Deleting)
	}
}

// appear notes that a node is at the place, vanish that it no longer is.
func (s *Nodes) appear(at *topology.Place) {
	s.inv.ledger.Present(at)
	s.inv.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.inv.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			for int(d) >= len(s.present[g]) {
				s.present[g] = append(s.present[g], 0)
			}
			s.present[g][d]++
		}
	})
}

func (s *Nodes) vanish(at *topology.Place) {
	s.inv.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.inv.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			if s.present[g][d]--; s.present[g][d] == 0 {
				s.inv.ledger.Absent(g, d)
			}
		}
	})
}

// Reschedule puts unplaced pods on nodes that there are, those to be kept most first, as far
// as room is found. It reports whether none is left.
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

// RescheduleOrFail is Reschedule that searches long, and gives up at the first class that finds
// no place.
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
	// searchMax is how many nodes that have room are compared for a pod.
	searchMax = 32
	// visitsMax bounds the search for them.
	visitsMax = 2000
	// yieldShare is by how much less on-demand nodes suit pods that leave them to others.
	yieldShare = 0.1
	// classesUnit is how many classes are asked whether they are unplaced for a unit of effort.
	classesUnit = 16
)

// reschedule finds room for the unplaced pods of a class. Of the first few nodes that have it,
// each pod goes to the one of which it takes what is left most evenly, and to an on-demand node
// that others depend on only if that is by far the evenest.
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

// rescheduleAlike is seat for pods that nothing but room tells apart from one to the next: only the
// node that took one is looked at again.
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
				at = len(s.nodes.vacancies.host) // there are no more, or they are not looked for
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
		if seen = slices.Delete(seen, best, best+1); visits <= 0 { // it was in the way of others
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

// judged are places and whether rules between pods allow one of a class there, as long as
// nothing changes: those that are alike are not asked about again.
type judged struct {
	s      *Rescheduler
	class  int
	places [4]*topology.Place
	ok     [4]bool
	n      int
}

// allow reports whether rules between pods allow one at the place.
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

// mayTake reports whether everything but resources allows a pod of the class on a node.
func (s *Nodes) mayTake(c int32, h int) bool {
	return s.isOpenTo(c, h) && (len(s.inv.classes[c].Keys) == 0 || s.inv.mayJoin(c, &s.hosts[h].place))
}

// isOpenTo reports whether everything but resources and rules between pods allows a pod of the
// class on a node.
func (s *Nodes) isOpenTo(c int32, h int) bool {
	cl, host := &s.inv.classes[c], &s.hosts[h]
	return !host.gone && host.taken && s.accepts(host, c) && (len(cl.Constraints.Ports) == 0 || !s.portTaken(host, cl.Constraints.Ports)) &&
		(host.node != nil || !s.inv.hasConflict(s.inv.offerings[host.bin].at, c, host.added))
}

// evenness is the square of the cosine between what a pod of a class needs and what is free, each
// resource by its price.
func (s *Inventory) evenness(c int32, free quantity.Vector) float64 {
	dot, ff := 0.0, 0.0
	for r, x := range s.priced[int(c)*len(free):][:len(free)] {
		if p := s.prices[r]; p > 0 {
			y := float64(free[r]) * p
			dot, ff = dot+x*y, ff+y*y
		}
	}
	if s.norms[c] == 0 || ff == 0 {
		return 0
	}
	return dot * dot / (s.norms[c] * ff)
}

// Put puts up to most unplaced pods of a class on a node, as far as every rule allows it,
// and returns how many.
func (s *Rescheduler) Put(c int32, h int, most int32) int32 {
	n := int32(0)
	for n < most && quantity.Times(s.nodes.hosts[h].free, s.inv.fills.none, s.inv.classes[c].Need, 1) > 0 && s.nodes.mayTake(c, h) {
		s.nodes.add(c, h, 1)
		n++
	}
	return n
}

// accepts reports whether labels and taints are right.
func (s *Nodes) accepts(host *host, c int32) bool {
	if host.node == nil {
		return s.inv.offerings[host.bin].allowed.Has(int(c))
	}
	if allowed := s.inv.fills.allowed[c]; allowed != nil {
		return allowed.Has(int(host.kind))
	}
	sh := s.inv.classes[c].Constraints
	return sh.Invalid == "" && fit.Tolerated(sh.Tolerations, host.node.Taints) && fit.Matches(sh.Terms, host.node.Labels)
}

// portTaken reports whether a host port is taken on the node.
func (s *Nodes) portTaken(host *host, want []cluster.HostPort) bool {
	if host.node != nil {
		return !model.PortsFree(s.inv.model.Meter, want, host.node.Ports) || s.inv.portAmong(host.added, want)
	}
	b := &s.inv.offerings[host.bin]
	return !model.PortsFree(s.inv.model.Meter, want, b.pool.Types[b.typ].Ports) || s.inv.portAmong(host.added, want)
}

// portAmong reports whether one of the pods has a host port that is wanted.
func (s *Inventory) portAmong(pods []Share, want []cluster.HostPort) bool {
	return slices.ContainsFunc(pods, func(sh Share) bool {
		return !model.PortsFree(s.model.Meter, want, s.classes[sh.Class].Constraints.Ports)
	})
}

func (s *Nodes) add(c int32, h int, n int32) {
	cl, host := &s.inv.classes[c], &s.hosts[h]
	s.unplaced[c] -= n
	host.free.AddN(cl.Need, -int64(n))
	s.reslot(h)
	s.inv.ledger.Count(int(c), &host.place, n, 0)
	if k := len(host.added) - 1; k >= 0 && host.added[k].Class == c && host.added[k].Change == s.change {
		host.added[k].N += n
	} else {
		host.added = append(host.added, Share{Class: c, N: n, Change: s.change})
	}
	s.log = append(s.log, change{changeAdd, int32(h), c, n})
}

func (s *Nodes) takeBack(e change) {
	host := &s.hosts[e.host]
	host.free.AddN(s.inv.classes[e.class].Need, int64(e.n))
	s.reslot(int(e.host))
	s.inv.ledger.Count(int(e.class), &host.place, -e.n, 0)
	k := len(host.added) - 1
	if host.added[k].N -= e.n; host.added[k].N == 0 {
		host.added = host.added[:k]
	}
}

// reslot shows the slots what the node has free.
func (s *Nodes) reslot(h int) {
	if host := &s.hosts[h]; !host.gone && host.taken {
		s.vacancies.set(h, host.free)
	} else {
		s.vacancies.set(h, nil)
	}
}

// Admit lets nodes that were launched since the mark take pods, until Close.
func (s *Rescheduler) Admit(mark int) {
	for _, e := range s.nodes.log[mark:] {
		host := &s.nodes.hosts[e.host]
		if e.kind != changeLaunch || host.gone || host.taken {
			continue
		}
		host.taken = true
		s.nodes.vacancies.push(e.host)
		s.nodes.reslot(int(e.host))
		for c := range s.room {
			if r := &s.room[c]; r.known && r.hosts[1] < 0 && s.inv.fits(int32(c), host.free) {
				r.known = false
			}
		}
	}
}

// Rank sets the order in which nodes are given pods: those first that come first in
// the list. Nodes that are not in it take none.
func (s *Rescheduler) Rank(hosts []int32) { s.rank(hosts) }

func (s *Rescheduler) rank(hosts []int32) {
	if hosts == nil {
		for h := range s.nodes.hosts {
			hosts = append(hosts, int32(h))
		}
	}
	clear(s.room)
	s.nodes.vacancies.reset(hosts, s.nodes.largest)
	for _, h := range hosts {
		s.nodes.reslot(int(h))
	}
	s.nodes.vacancies.build()
}
