package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
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
			s.unlaunch()
		case changeRelease:
			s.release(int(e.host), -1)
		}
	}
	s.log, s.kept = s.log[:mark], min(s.kept, mark)
	clear(s.unplaced)
}

// Keep makes everything since the mark final, unless an earlier mark is undone. It gives what
// removed nodes held of their pools' limits back to the limits.
func (s *Nodes) Keep(mark int) {
	for _, e := range s.log[mark:] {
		if e.kind == changeRemove {
			s.release(int(e.host), 1)
			s.log = append(s.log, change{kind: changeRelease, host: e.host})
		}
	}
	s.kept = len(s.log)
}

// release gives what a node counts back to its pool's limits; a sign of -1 takes it again.
func (s *Nodes) release(h int, sign int64) {
	host := &s.hosts[h]
	if host.node == nil {
		b := &s.inv.offerings[host.bin]
		b.pool.ReturnLimits(b.pool.Types[b.typ].Amounts, sign)
		s.inv.returnSupplies(b, int(sign))
		return
	}
	for _, p := range s.inv.model.Pools {
		if p.NodePool.Name == host.node.Pool {
			p.ReturnLimits(s.inv.model.Space.Vector(host.node.Capacity), sign)
		}
	}
}

// Remove removes a node. Its pods are unplaced until they are rescheduled or launched for.
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
	s.updateVacancy(h)
	for _, sh := range host.added {
		s.inv.ledger.Count(int(sh.Class), &host.place, sh.N, 0)
	}
	s.countAll(host, 1)
}

// countAll adds the pods that the node came with to the topology counts, or takes them out. An
// existing node keeps its domains in every spread, for it is removed only when its pods are
// elsewhere.
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
		s.inv.ledger.Count(s.inv.ledgerIndex[p.Constraints], &host.place, sign*p.Count, sign*p.Deleting)
	}
}

// add puts n unplaced pods of a class on a node.
func (s *Nodes) add(c int32, h int, n int32) {
	cl, host := &s.inv.classes[c], &s.hosts[h]
	s.unplaced[c] -= n
	host.free.AddN(cl.Need, -int64(n))
	s.updateVacancy(h)
	s.inv.ledger.Count(int(c), &host.place, n, 0)
	if k := len(host.added) - 1; k >= 0 && host.added[k].Class == c && host.added[k].Change == s.change {
		host.added[k].N += n
	} else {
		host.added = append(host.added, Share{Class: c, N: n, Change: s.change})
	}
	s.log = append(s.log, change{changeAdd, int32(h), c, n})
}

// takeBack undoes add. The caller makes the pods unplaced if they should be.
func (s *Nodes) takeBack(e change) {
	host := &s.hosts[e.host]
	host.free.AddN(s.inv.classes[e.class].Need, int64(e.n))
	s.updateVacancy(int(e.host))
	s.inv.ledger.Count(int(e.class), &host.place, -e.n, 0)
	k := len(host.added) - 1
	if host.added[k].N -= e.n; host.added[k].N == 0 {
		host.added = host.added[:k]
	}
}

// updateVacancy notes among the vacancies what the node has free now.
func (s *Nodes) updateVacancy(h int) {
	if host := &s.hosts[h]; !host.gone && host.taken {
		s.vacancies.set(h, host.free)
	} else {
		s.vacancies.set(h, nil)
	}
}

// unwind is Undo that leaves those pods unplaced that were so at the mark.
func (s *Nodes) unwind(mark int) {
	for i := len(s.log) - 1; i >= mark; i-- {
		switch e := s.log[i]; e.kind {
		case changeAdd:
			s.takeBack(e)
			s.unplaced[e.class] += e.n
		case changeLaunch:
			s.unlaunch()
		case changeRemove, changeRelease: // not since the mark
		}
	}
	s.log = s.log[:mark]
}

// place launches a node of an offering and puts the pods on it. It returns the node.
func (s *Nodes) place(b int, content []Share) int {
	bin := &s.inv.offerings[b]
	h := len(s.hosts)
	s.hosts = append(s.hosts, host{bin: int32(b), free: slices.Clone(bin.free), price: bin.price, since: s.change, spot: bin.isSpot()})
	host := &s.hosts[h]
	if keys := s.inv.ledger.Keys(); len(keys) > 0 {
		host.place = topology.Place{Domain: slices.Clone(bin.place.Domain), Counts: bin.place.Counts}
		for k := range keys {
			if keys[k] == label.Hostname {
				host.place.Domain[k] = s.hostDomain(k)
			}
		}
		s.appear(&host.place)
	}
	bin.pool.ReturnLimits(bin.pool.Types[bin.typ].Amounts, -1)
	s.inv.returnSupplies(bin, -1)
	s.log = append(s.log, change{kind: changeLaunch, host: int32(h)})
	for _, sh := range content {
		s.add(sh.Class, h, sh.N)
	}
	return h
}

// hostDomain returns a hostname domain that no node is in.
func (s *Nodes) hostDomain(key int) int32 {
	if n := len(s.unused); n > 0 {
		d := s.unused[n-1]
		s.unused = s.unused[:n-1]
		return d
	}
	return s.inv.ledger.NewDomain(key)
}

// unlaunch undoes the last launch.
func (s *Nodes) unlaunch() {
	h := len(s.hosts) - 1
	host := &s.hosts[h]
	s.vacancies.drop(h)
	b := &s.inv.offerings[host.bin]
	b.pool.ReturnLimits(b.pool.Types[b.typ].Amounts, 1)
	s.inv.returnSupplies(b, 1)
	if keys := s.inv.ledger.Keys(); len(keys) > 0 {
		s.vanish(&host.place)
		for k := range keys {
			if keys[k] == label.Hostname {
				s.unused = append(s.unused, host.place.Domain[k])
			}
		}
	}
	s.hosts = s.hosts[:h]
}

// Open launches an empty node of an offering, which Put can use until Close. It returns false if
// a limit does not allow it.
func (s *Nodes) Open(bin int32) (h int, ok bool) {
	if !s.inv.stock(int(bin)) {
		return 0, false
	}
	h = s.place(int(bin), nil)
	s.hosts[h].taken = true
	return h, true
}

// Close ends what Open or Admit began.
func (s *Nodes) Close(h int) {
	s.hosts[h].taken = false
	s.vacancies.drop(h)
}

// Cancel takes back the node that Open has just launched, if it has no pods.
func (s *Nodes) Cancel() {
	s.unlaunch()
	s.log = s.log[:len(s.log)-1]
}

// Launched returns the nodes that were launched since the mark and not removed again.
func (s *Nodes) Launched(mark int) []int {
	var hosts []int
	for _, e := range s.log[mark:] {
		if e.kind == changeLaunch && !s.hosts[e.host].gone {
			hosts = append(hosts, int(e.host))
		}
	}
	return hosts
}

// Stocked returns the launched nodes that were given pods since the mark.
func (s *Nodes) Stocked(mark int) []int {
	var hosts []int
	for _, e := range s.log[mark:] {
		if h := int(e.host); e.kind == changeAdd && s.hosts[h].node == nil && (len(hosts) == 0 || hosts[len(hosts)-1] != h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Moved returns the pods that were put since the mark on nodes with an index below first.
func (s *Nodes) Moved(mark, first int) []Move {
	var moves []Move
	for _, e := range s.log[mark:] {
		if e.kind == changeAdd && int(e.host) < first {
			moves = append(moves, Move{e.class, e.host, e.n})
		}
	}
	return moves
}

// Move is N pods of a class that go to a node.
type Move struct {
	Class, Host, N int32
}
