package pack

import (
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
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
	u := upholding{seats: seats, moved: map[int32]bool{}, held: map[placement]bool{}, last: last}
	for sweep, again := 0, true; again && (last || sweep < sweepsMost); sweep++ {
		again = false
		for _, c := range slices.Backward(s.order) {
			if cl := &s.classes[c]; len(cl.keys) > 0 {
				again = s.upholdClass(cl, &u) || again
			}
		}
		if !again {
			again = s.upholdOrder(seats, last)
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
	if k := slices.Index(s.ledger.Keys(), label.Hostname); k >= 0 {
		s.ledger.Expect(k, len(s.launches))
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
	has := b.pool.pool.Requirements
	if len(b.open) > 0 {
		has = has.Intersect(b.open)
	}
	b.place = s.placeOfUnsettled(&unsettled{host: "launch " + strconv.Itoa(i), at: b.at, atoms: b.aliveIn(b.scratch), has: has})
	s.ledger.Present(&b.place)
	for _, d := range s.arrivals(b) {
		s.ledger.Count(s.visible[d].class, &b.place, 1, 0)
	}
}

// upholding is a round of uphold.
type upholding struct {
	seats [][]int32 // by class: the pods that have a place
	moved map[int32]bool
	held  map[placement]bool // where pods of the class at hand may stay
	last  bool
}

// upholdClass is uphold for the pods of one class. It tells whether any had to go.
func (s *solver) upholdClass(c *class, u *upholding) (gone bool) {
	clear(u.held)
	for _, p := range slices.Backward(u.seats[c.index]) {
		at := s.placed[p]
		if at.kind == nowhere || u.held[at] {
			continue
		}
		miss := s.ledger.Holds(c.index, s.placeAt(at))
		if miss.IsYes() || s.holdsFirst(c, at, u.seats) {
			u.held[at] = true
			continue
		}
		s.remove(c, p)
		s.refused[p] = miss.Verdict()
		if !u.last && !u.moved[p] {
			u.moved[p] = true
			s.placeAnew(c, p)
		}
		gone = true
		clear(u.held)
	}
	return gone
}

// readmitMost bounds for how many pods room that others left is looked for, judgedMost how
// often it is asked for that whether all others may stay.
const (
	readmitMost = 50
	judgedMost  = 200
)

// readmission gives pods that are refused the room, and the limits, that those left who had
// to go, as far as all others may stay.
type readmission struct {
	*solver
	seats  [][]int32 // by class: the pods that have a place
	judged int       // how often all others were asked
}

// readmit tells whether any refused pod found a place.
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
	var r *readmission
	tries := readmitMost
	for again := true; again; {
		again = false
		for _, c := range s.order {
			for len(refused[c]) > 0 && !s.classes[c].tooLarge {
				if tries--; tries < 0 {
					return any
				}
				if r == nil {
					r = &readmission{solver: s, seats: s.seats()}
				}
				p := refused[c][0]
				if !r.one(&s.classes[c], p) {
					break
				}
				refused[c], r.seats[c] = refused[c][1:], append(r.seats[c], p)
				any, again = true, true
			}
		}
	}
	return any
}

// one finds room for one pod. It tells whether it did.
func (r *readmission) one(c *class, p int32) bool {
	for i := range c.stages {
		st := &c.stages[i]
		if at, ok := r.placeOneFixed(c, st); ok && r.keeps(c, p, at) {
			return true
		}
		for l, b := range r.launches {
			if b.refusal.IsYes() && r.harmless(c, st, b) && r.addSettled(b, c, st) && r.keeps(c, p, placement{onLaunch, int32(l)}) {
				return true
			}
		}
		if r.open(c, st, func(b *launchBin) bool { return r.addSettled(b, c, st) }) != nil && r.keeps(c, p, placement{onLaunch, int32(len(r.launches) - 1)}) {
			return true
		}
	}
	return false
}

// keeps tells whether a pod may stay where it was just placed, and all others where they
// are; if not it is taken away again.
func (r *readmission) keeps(c *class, p int32, at placement) bool {
	r.placed[p] = at
	if r.ledger.Holds(c.index, r.placeAt(at)).IsYes() && r.othersStay() {
		return true
	}
	r.remove(c, p)
	r.dropEmpty()
	return false
}

// harmless tells whether a pod of the class could be on the launch with all others staying,
// before the launch is narrowed to what holds the pod.
func (r *readmission) harmless(c *class, st *stage, b *launchBin) bool {
	if b.full(c) {
		return false
	}
	if len(c.keys) == 0 {
		return true
	}
	if !r.ledger.Check(c.index, &b.place, st.wishesFrom, st.courteous).IsYes() {
		return false
	}
	r.ledger.Count(c.index, &b.place, 1, 0)
	defer r.ledger.Count(c.index, &b.place, -1, 0)
	return r.ledger.Holds(c.index, &b.place).IsYes() && r.othersStay()
}

// othersStay tells whether every pod that has a place may keep it.
func (r *readmission) othersStay() bool {
	r.judged++
	return r.judged <= judgedMost && r.allHold(r.seats)
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
	count := make([]int, len(s.classes))
	for p := range s.placed {
		if s.placed[p].kind != nowhere {
			count[at[s.snap.Pending[p].Shape]]++
		}
	}
	memory := make([]int32, len(s.placed))
	for c, n := range count {
		seats[c], memory = memory[:0:n], memory[n:]
	}
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
