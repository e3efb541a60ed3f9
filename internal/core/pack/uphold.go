package pack

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// sweepsMost bounds how often a round looks over all pods while it moves some.
const sweepsMost = 8

// uphold moves pods whose rules are broken once all others are where they are planned, for
// kube-scheduler may bind those first. What came last goes first, and those that needed it
// go with it. A pod is moved once, in the last round never: then it is refused. It tells
// whether all could stay.
func (s *solver) uphold(last bool) (all bool) {
	if len(s.ledger.Keys()) == 0 {
		return true
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
	s.recountAll(seats)
	all = true
	moved := map[int32]bool{}
	for sweep, again := 0, true; again && (last || sweep < sweepsMost); sweep++ {
		again = false
		for _, c := range slices.Backward(s.order) {
			if cl := &s.classes[c]; len(cl.keys) > 0 {
				again = s.upholdClass(cl, seats, moved, last) || again
			}
		}
		all = all && !again
	}
	return all
}

// recountAll counts once more from the start, now that all is known that will be: launches
// became less than they might have, and what could be bought but is not binds nobody.
func (s *solver) recountAll(seats [][]int32) {
	s.ledger = s.before.Clone()
	if !s.opts.BuyableBinds {
		s.ledger.SoldOut()
	}
	for i, b := range s.launches {
		if b.refusal.IsYes() {
			s.locateFinal(i, b)
		}
	}
	for c := range seats {
		if len(s.classes[c].keys) == 0 {
			continue
		}
		for _, p := range seats[c] {
			if at := s.placed[p]; at.kind != nowhere {
				s.ledger.Count(c, s.placeAt(at), 1, 0)
			}
		}
	}
}

// locateFinal gives a launch the place that the cloud's choices leave it.
func (s *solver) locateFinal(i int, b *launchBin) {
	has := b.pool.pool.Requirements.Intersect(b.open)
	b.place = s.placeOfUnsettled(&unsettled{host: "launch " + strconv.Itoa(i), at: b.at, atoms: b.alive(), has: has})
	s.ledger.Present(&b.place)
	for _, d := range b.company.daemons {
		s.ledger.Count(s.visible[d].class, &b.place, 1, 0)
	}
}

// upholdClass is uphold for the pods of one class. It tells whether any had to go.
func (s *solver) upholdClass(c *class, seats [][]int32, moved map[int32]bool, last bool) (gone bool) {
	held := map[placement]bool{}
	for _, p := range slices.Backward(seats[c.index]) {
		at := s.placed[p]
		if at.kind == nowhere || held[at] {
			continue
		}
		miss := s.ledger.Holds(c.index, s.placeAt(at))
		if miss.IsYes() || s.holdsFirst(c, at, seats) {
			held[at] = true
			continue
		}
		s.remove(c, p)
		s.refused[p] = miss.Verdict()
		if !last && !moved[p] {
			moved[p] = true
			s.placeAnew(c, p)
		}
		gone = true
		clear(held)
	}
	return gone
}

// holdsFirst tells whether a pod of the class may be at the place as long as those are not
// there that must be with such pods: they are taken to come after it.
func (s *solver) holdsFirst(c *class, at placement, seats [][]int32) bool {
	count := func(n int32) (any bool) {
		for f := range seats {
			if f == c.index || !s.ledger.Leads(c.index, f) {
				continue
			}
			for _, p := range seats[f] {
				if to := s.placed[p]; to.kind != nowhere {
					s.ledger.Count(f, s.placeAt(to), n, 0)
					any = true
				}
			}
		}
		return any
	}
	if !count(-1) {
		return false
	}
	defer count(1)
	return s.ledger.Holds(c.index, s.placeAt(at)).IsYes()
}

// readmitMost bounds for how many pods room that others left is looked for.
const readmitMost = 50

// readmit gives pods that are refused the room, and the limits, that those left who had to
// go, as far as all others may stay. It tells whether any found a place.
func (s *solver) readmit() (any bool) {
	s.dropEmpty()
	refused := make([][]int32, len(s.classes))
	of := s.classOf()
	for p := range s.placed {
		if s.placed[p].kind == nowhere {
			c := of[s.snap.Pending[p].Shape]
			refused[c] = append(refused[c], int32(p))
		}
	}
	var seats [][]int32
	tries := readmitMost
	for _, c := range s.order {
		for _, p := range refused[c] {
			if tries--; tries < 0 {
				return any
			}
			if seats == nil {
				seats = s.seats()
			}
			if !s.readmitOne(&s.classes[c], p, seats) {
				break
			}
			seats[c] = append(seats[c], p)
			any = true
		}
	}
	return any
}

// readmitOne finds room for one pod. It tells whether it did.
func (s *solver) readmitOne(c *class, p int32, seats [][]int32) bool {
	for i := range c.stages {
		st := &c.stages[i]
		at, ok := s.placeOneFixed(c, st)
		if !ok {
			if s.open(c, st, func(b *launchBin) bool { return s.addSettled(b, c, st) }) == nil {
				continue
			}
			at = placement{onLaunch, int32(len(s.launches) - 1)}
		}
		s.placed[p] = at
		if s.ledger.Holds(c.index, s.placeAt(at)).IsYes() && s.allHold(seats) {
			return true
		}
		s.remove(c, p)
		s.dropEmpty()
	}
	return false
}

// allHold tells whether every pod may stay where it is.
func (s *solver) allHold(seats [][]int32) bool {
	for c := range seats {
		cl := &s.classes[c]
		if len(cl.keys) == 0 {
			continue
		}
		for _, p := range seats[c] {
			at := s.placed[p]
			if at.kind != nowhere && !s.ledger.Holds(c, s.placeAt(at)).IsYes() && !s.holdsFirst(cl, at, seats) {
				return false
			}
		}
	}
	return true
}

// placeAnew finds another place for one pod of the class, if there is one.
func (s *solver) placeAnew(c *class, p int32) {
	others := c.pods
	c.pods = []int32{p}
	for i := 0; i < len(c.stages) && len(c.pods) > 0; i++ {
		s.placeSingly(c, &c.stages[i])
	}
	c.pods = append(c.pods, others...)
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
			if b.pool.limited() {
				b.hold(make(quantity.Vector, len(b.holds)))
				b.pool.nodesLeft++
			}
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
	at := s.classOf()
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

// classOf returns the index of each shape's class.
func (s *solver) classOf() map[*cluster.Shape]int {
	of := make(map[*cluster.Shape]int, len(s.classes))
	for c := range s.classes {
		of[s.classes[c].shape] = c
	}
	return of
}
