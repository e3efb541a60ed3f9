package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// uphold refuses pods whose rules are broken once all others are where they are planned:
// kube-scheduler may bind those first. What came last goes first, and those that needed it
// go with it.
func (s *solver) uphold() {
	if len(s.ledger.Keys()) == 0 {
		return
	}
	seats := s.seats()
	for c := range seats {
		for _, p := range seats[c] {
			if at := s.placed[p]; at.kind == onLaunch && !s.launches[at.index].refusal.IsYes() {
				s.refused[p] = s.launches[at.index].refusal
				s.remove(&s.classes[c], p)
			}
		}
	}
	for _, b := range s.launches {
		if b.refusal.IsYes() {
			s.leaveOpen(b)
		}
	}
	if !s.opts.BuyableBinds {
		defer s.ledger.SoldOut()()
	}
	for lost := true; lost; {
		lost = false
		for _, c := range slices.Backward(s.order) {
			if len(s.classes[c].keys) > 0 {
				lost = s.upholdClass(&s.classes[c], seats[c]) || lost
			}
		}
	}
	s.dropEmpty()
}

// upholdClass is uphold for the pods of one class. It tells whether any is refused.
func (s *solver) upholdClass(c *class, seats []int32) (lost bool) {
	held := map[placement]bool{}
	for _, p := range slices.Backward(seats) {
		at := s.placed[p]
		if at.kind == nowhere || held[at] {
			continue
		}
		miss := s.ledger.Holds(c.index, s.placeAt(at))
		if miss.IsYes() {
			held[at] = true
			continue
		}
		s.remove(c, p)
		s.refused[p] = miss.Verdict()
		lost = true
		clear(held)
	}
	return lost
}

// leaveOpen notes in which domains a launch may be that was not settled on one.
func (s *solver) leaveOpen(b *launchBin) {
	for k, key := range s.ledger.Keys() {
		if b.place.Domain[k] != topology.Open {
			continue
		}
		var may []int32
		for _, ch := range b.pool.choices(key, b.alive(), b.open[key].Values()) {
			may = append(may, s.ledger.Domain(k, ch.value))
		}
		switch len(may) {
		case 0:
			s.settleDomain(b, k, topology.None)
		case 1:
			s.settleDomain(b, k, may[0])
		default:
			b.place.May = slices.Grow(b.place.May, len(b.place.Domain))[:len(b.place.Domain)]
			b.place.May[k] = may
			s.settleDomain(b, k, topology.Unsettled)
		}
	}
	s.ledger.Present(&b.place)
}

// dropEmpty gives up launches that have no pod left.
func (s *solver) dropEmpty() {
	left := make([]int, len(s.launches))
	for _, at := range s.placed {
		if at.kind == onLaunch {
			left[at.index]++
		}
	}
	for i, b := range s.launches {
		if left[i] == 0 && b.refusal.IsYes() {
			b.refusal = verdict.Of(verdict.NoPlace, "pool "+b.pool.pool.Name, "the pods it was for are refused")
		}
	}
}

// placeAt returns where a placed pod would be.
func (s *solver) placeAt(at placement) *topology.Place {
	if at.kind == onFixed {
		return &s.fixed[at.index].place
	}
	return &s.launches[at.index].place
}

// remove takes a placed pod of the class back.
func (s *solver) remove(c *class, p int32) {
	at := s.placed[p]
	if len(c.keys) > 0 {
		s.ledger.Count(c.index, s.placeAt(at), -1, 0)
	}
	var used quantity.Vector
	var ports *[]cluster.HostPort
	if at.kind == onFixed {
		used, ports = s.fixed[at.index].used, &s.fixed[at.index].ports
	} else {
		used, ports = s.launches[at.index].used, &s.launches[at.index].ports
	}
	used.AddN(c.need, -1)
	for _, taken := range c.shape.Ports {
		if i := slices.Index(*ports, taken); i >= 0 {
			*ports = slices.Delete(slices.Clone(*ports), i, i+1)
		}
	}
	s.placed[p] = placement{}
}

// seats returns by class the pods that have a place, in the order in which they are placed.
func (s *solver) seats() [][]int32 {
	at := map[*cluster.Shape]int{}
	for c := range s.classes {
		at[s.classes[c].shape] = c
	}
	seats, older := make([][]int32, len(s.classes)), byAge(s.snap)
	for p := range s.placed {
		if s.placed[p].kind != nowhere {
			c := at[s.snap.Pending[p].Shape]
			seats[c] = append(seats[c], int32(p))
		}
	}
	for c := range seats {
		slices.SortFunc(seats[c], older)
	}
	return seats
}
