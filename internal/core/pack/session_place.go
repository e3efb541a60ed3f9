package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/fit"
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
	changeBuy
	changeRelease
)

// Begin starts a change and returns where it starts, for Undo and Keep.
func (s *Session) Begin() int {
	s.change++
	return len(s.log)
}

// Change returns the number of the change under way.
func (s *Session) Change() int32 { return s.change }

// Undo takes back everything since the mark.
func (s *Session) Undo(mark int) {
	for i := len(s.log) - 1; i >= mark; i-- {
		switch e := s.log[i]; e.kind {
		case changeAdd:
			s.takeBack(e)
		case changeRemove:
			s.putBack(int(e.host))
		case changeBuy:
			s.unbuy()
		case changeRelease:
			s.release(int(e.host), -1)
		}
	}
	s.log, s.kept = s.log[:mark], min(s.kept, mark)
	clear(s.loose)
}

// Keep makes everything since the mark final, as far as later marks go: what removed
// machines held of their pools' limits is free from then on.
func (s *Session) Keep(mark int) {
	for _, e := range s.log[mark:] {
		if e.kind == changeRemove {
			s.release(int(e.host), 1)
			s.log = append(s.log, change{kind: changeRelease, host: e.host})
		}
	}
	s.kept = len(s.log)
}

// release gives back to the limits what a machine of a pool held; -1 takes it again.
func (s *Session) release(h int, sign int64) {
	host := &s.hosts[h]
	if host.node == nil {
		b := &s.bins[host.bin]
		b.pool.count(b.pool.types[b.typ].capacity, sign)
		return
	}
	for _, p := range s.model.pools {
		if p.pool.Name == host.node.Pool {
			p.count(s.model.space.Vector(host.node.Capacity), sign)
		}
	}
}

// count adds to what is left of the pool's limits.
func (p *poolModel) count(v quantity.Vector, sign int64) {
	if _, limited := p.pool.Limits[quantity.Nodes]; limited {
		p.nodesLeft += sign
	}
	for i := range p.left {
		if _, limited := p.pool.Limits[p.space[i]]; limited {
			p.left[i] = quantity.Add(p.left[i], quantity.Mul(sign, v[i]))
		}
	}
}

// Remove takes a machine away. Its pods are loose until Settle and Buy find them others.
func (s *Session) Remove(h int) {
	host := &s.hosts[h]
	host.gone = true
	s.slots.set(h, nil)
	for _, sh := range host.own {
		s.loose[sh.Class] += sh.N
	}
	for _, sh := range host.added {
		s.loose[sh.Class] += sh.N
		s.ledger.Count(int(sh.Class), &host.place, -sh.N, 0)
	}
	s.countAll(host, -1)
	s.log = append(s.log, change{kind: changeRemove, host: int32(h)})
}

// putBack undoes Remove.
func (s *Session) putBack(h int) {
	host := &s.hosts[h]
	host.gone = false
	s.reslot(h)
	for _, sh := range host.added {
		s.ledger.Count(int(sh.Class), &host.place, sh.N, 0)
	}
	s.countAll(host, 1)
}

// countAll adds the pods that the machine came with to the ledger, or takes them out. One that
// is there keeps its domains in every spread: it goes only when its pods are elsewhere.
func (s *Session) countAll(host *host, sign int32) {
	if len(s.ledger.Keys()) == 0 {
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
		s.ledger.Count(s.fills.index[p.Shape], &host.place, sign*p.Count, sign*p.Leaving)
	}
}

// appear notes that a machine is at the place, vanish that it no longer is.
func (s *Session) appear(at *topology.Place) {
	s.ledger.Present(at)
	s.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			for int(d) >= len(s.present[g]) {
				s.present[g] = append(s.present[g], 0)
			}
			s.present[g][d]++
		}
	})
}

func (s *Session) vanish(at *topology.Place) {
	s.ledger.Spreading(func(g, _ int, _, _ bool) {
		if d := at.Domain[s.ledger.KeyOf(g)]; d >= 0 && at.Counts[g] {
			if s.present[g][d]--; s.present[g][d] == 0 {
				s.ledger.Absent(g, d)
			}
		}
	})
}

// Settle puts loose pods on machines that there are, those to be kept most first, as far
// as room is found. It tells whether none is left.
func (s *Session) Settle() bool {
	all := true
	s.model.meter.Spend(1 + len(s.size)/classesUnit)
	for _, c := range s.size {
		if s.loose[c] > 0 {
			s.seat(c)
			all = all && s.loose[c] == 0
		}
	}
	return all
}

// SettleOrFail is Settle that searches long, and gives up at the first class that finds
// no place.
func (s *Session) SettleOrFail() bool {
	s.model.meter.Spend(1 + len(s.size)/classesUnit)
	for _, c := range s.size {
		if s.loose[c] > 0 {
			s.seat(c)
			if s.loose[c] > 0 {
				return false
			}
		}
	}
	return true
}

const (
	// lookMax is how many machines that have room are compared for a pod.
	lookMax = 32
	// visitsMax bounds the search for them.
	visitsMax = 2000
	// yieldShare is by how much less on-demand machines suit pods that leave them to others.
	yieldShare = 0.1
	// classesUnit is how many classes are asked whether they are loose for a unit of effort.
	classesUnit = 16
)

// seat finds room for the loose pods of a class. Of the first few machines that have it,
// each pod goes to the one of which it takes what is left most evenly, and to an on-demand machine
// that others depend on only if that is by far the evenest.
func (s *Session) seat(c int32) {
	if s.room[c].known && s.room[c].hosts[0] < 0 {
		return
	}
	if cl := &s.classes[c]; s.loose[c] > 1 && len(cl.keys) == 0 && len(cl.shape.Ports) == 0 {
		s.seatAlike(c)
		return
	}
	want := s.slots.wish(s.classes[c].need)
	for s.loose[c] > 0 {
		best, bestEven, seen, visits := -1, -1.0, 0, visitsMax
		s.model.meter.Spend(1 + lookMax)
		judged := judged{s: s, class: int(c)}
		for at := s.slots.next(0, want, &visits); at >= 0 && seen < lookMax; at = s.slots.next(at+1, want, &visits) {
			h := int(s.slots.host[at])
			if !s.isOpenTo(c, h) || !judged.allow(&s.hosts[h].place) {
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
		s.add(c, best, 1)
	}
}

// seatAlike is seat for pods that nothing but room tells apart from one to the next: only the
// machine that took one is looked at again.
func (s *Session) seatAlike(c int32) {
	type candidate struct {
		host int32
		even float64
	}
	var buffer [lookMax]candidate
	want, seen, at, visits := s.slots.wish(s.classes[c].need), buffer[:0], -1, visitsMax
	for s.loose[c] > 0 {
		s.model.meter.Spend(1)
		for len(seen) < lookMax && at < len(s.slots.host) {
			if at = s.slots.next(at+1, want, &visits); at < 0 {
				at = len(s.slots.host) // there are no more, or they are not looked for
				break
			}
			if h := s.slots.host[at]; s.isOpenTo(c, int(h)) {
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
		s.add(c, h, 1)
		if s.fits(c, s.hosts[h].free) {
			seen[best].even = s.suits(c, h)
			continue
		}
		if seen = slices.Delete(seen, best, best+1); visits <= 0 { // it was in the way of others
			seen, at, visits = seen[:0], -1, visitsMax
		}
	}
}

// suits returns how well a pod of a class suits what is free on a machine.
func (s *Session) suits(c int32, h int) float64 {
	even := s.evenness(c, s.hosts[h].free)
	if s.yields[c] && !s.hosts[h].spot {
		even *= yieldShare
	}
	return even
}

// judged are places and whether rules between pods allow one of a class there, as long as
// nothing changes: those that are alike are not asked about again.
type judged struct {
	s      *Session
	class  int
	places [4]*topology.Place
	ok     [4]bool
	n      int
}

// allow tells whether rules between pods allow one at the place.
func (j *judged) allow(at *topology.Place) bool {
	if len(j.s.classes[j.class].keys) == 0 {
		return true
	}
	if j.s.ledger.MindsHosts(j.class) { // none are alike
		return j.s.mayJoin(int32(j.class), at)
	}
	for i, o := range j.places[:j.n] {
		if j.s.ledger.Alike(j.class, o, at) {
			return j.ok[i]
		}
	}
	ok := j.s.mayJoin(int32(j.class), at)
	if j.n < len(j.places) {
		j.places[j.n], j.ok[j.n] = at, ok
		j.n++
	}
	return ok
}

// mayTake tells whether everything but resources allows a pod of the class on a machine.
func (s *Session) mayTake(c int32, h int) bool {
	return s.isOpenTo(c, h) && (len(s.classes[c].keys) == 0 || s.mayJoin(c, &s.hosts[h].place))
}

// isOpenTo tells whether everything but resources and rules between pods allows a pod of the
// class on a machine.
func (s *Session) isOpenTo(c int32, h int) bool {
	cl, host := &s.classes[c], &s.hosts[h]
	return !host.gone && host.taken && s.accepts(host, c) && (len(cl.shape.Ports) == 0 || !s.portTaken(host, cl.shape.Ports)) &&
		(host.node != nil || !s.isAtOdds(s.bins[host.bin].at, c, host.added))
}

// evenness is the square of the cosine between what a pod of a class needs and what is free, each
// resource by its price.
func (s *Session) evenness(c int32, free quantity.Vector) float64 {
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

// Put puts up to most loose pods of a class on a machine, as far as every rule allows it,
// and returns how many.
func (s *Session) Put(c int32, h int, most int32) int32 {
	n := int32(0)
	for n < most && quantity.Times(s.hosts[h].free, s.fills.none, s.classes[c].need, 1) > 0 && s.mayTake(c, h) {
		s.add(c, h, 1)
		n++
	}
	return n
}

// accepts tells whether labels and taints are right.
func (s *Session) accepts(host *host, c int32) bool {
	if host.node == nil {
		return s.bins[host.bin].allowed.has(int(c))
	}
	if allowed := s.fills.allowed[c]; allowed != nil {
		return allowed.has(int(host.kind))
	}
	sh := s.classes[c].shape
	return sh.Invalid == "" && fit.Tolerated(sh.Tolerations, host.node.Taints) && fit.Matches(sh.Terms, host.node.Labels)
}

// portTaken tells whether a host port is taken on the machine.
func (s *Session) portTaken(host *host, want []cluster.HostPort) bool {
	if host.node != nil {
		return !portsFree(s.model.meter, want, host.node.Ports) || s.portAmong(host.added, want)
	}
	b := &s.bins[host.bin]
	return !portsFree(s.model.meter, want, b.pool.types[b.typ].ports) || s.portAmong(host.added, want)
}

// portAmong tells whether one of the pods has a host port that is wanted.
func (s *Session) portAmong(pods []Share, want []cluster.HostPort) bool {
	return slices.ContainsFunc(pods, func(sh Share) bool { return !portsFree(s.model.meter, want, s.classes[sh.Class].shape.Ports) })
}

func (s *Session) add(c int32, h int, n int32) {
	cl, host := &s.classes[c], &s.hosts[h]
	s.loose[c] -= n
	host.free.AddN(cl.need, -int64(n))
	s.reslot(h)
	s.ledger.Count(int(c), &host.place, n, 0)
	if k := len(host.added) - 1; k >= 0 && host.added[k].Class == c && host.added[k].Change == s.change {
		host.added[k].N += n
	} else {
		host.added = append(host.added, Share{Class: c, N: n, Change: s.change})
	}
	s.log = append(s.log, change{changeAdd, int32(h), c, n})
}

func (s *Session) takeBack(e change) {
	host := &s.hosts[e.host]
	host.free.AddN(s.classes[e.class].need, int64(e.n))
	s.reslot(int(e.host))
	s.ledger.Count(int(e.class), &host.place, -e.n, 0)
	k := len(host.added) - 1
	if host.added[k].N -= e.n; host.added[k].N == 0 {
		host.added = host.added[:k]
	}
}

// reslot shows the slots what the machine has free.
func (s *Session) reslot(h int) {
	if host := &s.hosts[h]; !host.gone && host.taken {
		s.slots.set(h, host.free)
	} else {
		s.slots.set(h, nil)
	}
}

// Welcome lets machines that were bought since the mark take pods, until Close.
func (s *Session) Welcome(mark int) {
	for _, e := range s.log[mark:] {
		host := &s.hosts[e.host]
		if e.kind != changeBuy || host.gone || host.taken {
			continue
		}
		host.taken = true
		s.slots.push(e.host)
		s.reslot(int(e.host))
		for c := range s.room {
			if r := &s.room[c]; r.known && r.hosts[1] < 0 && s.fits(int32(c), host.free) {
				r.known = false
			}
		}
	}
}

// Rank sets the order in which machines are given pods: those first that come first in
// the list. Machines that are not in it take none.
func (s *Session) Rank(hosts []int32) { s.rank(hosts) }

func (s *Session) rank(hosts []int32) {
	if hosts == nil {
		for h := range s.hosts {
			hosts = append(hosts, int32(h))
		}
	}
	clear(s.room)
	s.slots.reset(hosts, s.largest)
	for _, h := range hosts {
		s.reslot(int(h))
	}
	s.slots.build()
}
