package repack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// LaunchMany is LaunchFor for many pods: it solves the problem with core/cover. Rules between pods
// are stated before, as the zone in which each pod is to be and as classes that may not share a
// node. It returns false if that does not suffice, or if pods have host ports.
func (s *Launcher) LaunchMany(limit float64) bool {
	many := s.bestOfUnplaced()
	if many == nil || many.Price >= limit {
		return false
	}
	mark := len(s.nodes.log)
	var ruled []Move
	for _, pattern := range many.Patterns {
		for range pattern.Times {
			h, ok := s.nodes.Open(pattern.Bin)
			if !ok {
				s.nodes.unwind(mark)
				return false
			}
			for _, item := range pattern.Items {
				c, n := many.classes[item.Class], int32(item.N)
				if s.inv.keyed[c] {
					ruled = append(ruled, Move{c, int32(h), n})
					continue
				}
				s.nodes.add(c, h, n)
			}
		}
	}
	s.pods.PutAll(ruled)
	for _, h := range s.nodes.Launched(mark) {
		s.nodes.Close(h)
	}
	if s.nodes.AnyUnplaced() {
		s.nodes.unwind(mark)
		return false
	}
	return true
}

// manyMax is how many answers are kept.
const manyMax = 1024

// bestOfUnplaced returns the answer of core/cover for the unplaced pods, pools' limits aside; nil if
// it does not take all of them. Answers are kept, because a search asks for the same pods again in
// each order that it tries.
func (s *Launcher) bestOfUnplaced() *many {
	s.gather()
	sum := s.sumOfUnplaced()
	if m, known := s.answers[sum]; known {
		return m
	}
	var m *many
	if p, classes, ok := s.problemOfUnplaced(); ok {
		if answer := cover.Solve(p, cover.Effort{Passes: 8, Improve: 100}); len(answer.Unplaced) == 0 {
			m = &many{answer, classes}
		}
	}
	if s.answers == nil || len(s.answers) == manyMax {
		s.answers = map[topology.Sum]*many{}
	}
	s.answers[sum] = m
	return m
}

// problemOfUnplaced returns the problem of launching for the unplaced pods, and the session's class
// of each of its classes. ok is false if rules between pods leave a pod no domain.
func (s *Launcher) problemOfUnplaced() (p *cover.Problem, classes []int32, ok bool) {
	p = &cover.Problem{Dims: s.inv.problem.Dims, Bins: s.inv.problem.Bins}
	var counted []Move // the host is an area
	defer func() {
		for _, m := range counted {
			s.inv.ledger.Count(int(m.Class), &s.areas[m.Host].place, -m.N, 0)
		}
	}()
	for _, c := range s.inv.size {
		if s.nodes.unplaced[c] == 0 {
			continue
		}
		if len(s.inv.classes[c].Constraints.Ports) > 0 || s.inv.mayConflict(c) {
			return nil, nil, false
		}
		class := s.inv.problem.Classes[c]
		class.Count = int(s.nodes.unplaced[c])
		class.PerBin = int(s.perBin(c))
		if !slices.ContainsFunc(s.inv.classes[c].Keys, func(k int) bool { return s.inv.ledger.Keys()[k] != label.Hostname }) {
			p.Classes, classes = append(p.Classes, class), append(classes, c)
			continue
		}
		if s.areas == nil {
			s.addAreas()
		}
		first := len(counted)
		if counted, ok = s.allot(c, counted); !ok {
			return nil, nil, false
		}
		for _, m := range counted[first:] {
			class.Count, class.Bins = int(m.N), both(s.inv.problem.Classes[c].Bins, s.areas[m.Host].bins)
			p.Classes, classes = append(p.Classes, class), append(classes, c)
		}
	}
	s.addConflicts(p, classes)
	return p, classes, true
}

// addAreas groups the bins into areas.
func (s *Launcher) addAreas() {
	open := func(at *topology.Place) topology.Place {
		out := topology.Place{Domain: slices.Clone(at.Domain), Counts: at.Counts}
		for k, key := range s.inv.ledger.Keys() {
			if key == label.Hostname {
				out.Domain[k] = topology.Open
			}
		}
		return out
	}
	first := []int{}
	for b := range s.inv.offerings {
		at := slices.IndexFunc(first, func(o int) bool { return s.inv.offerings[o].alike(&s.inv.offerings[b]) })
		if at < 0 {
			at = len(first)
			first = append(first, b)
			s.areas = append(s.areas, area{open(&s.inv.offerings[b].place), make([]uint64, (len(s.inv.offerings)+63)/64)})
		}
		s.areas[at].bins[b/64] |= 1 << (b % 64)
	}
}

// allot distributes the unplaced pods of a class over the areas: each goes to the area with the
// fewest of them that allows it, and is counted there. It appends how many pods each area gets.
// ok is false if some get none.
func (s *Launcher) allot(c int32, moves []Move) (all []Move, ok bool) {
	given := make([]int32, len(s.areas))
	for range s.nodes.unplaced[c] {
		best := -1
		for i := range s.areas {
			at := &s.areas[i]
			if (best < 0 || given[i] < given[best]) && slices.ContainsFunc(both(s.inv.problem.Classes[c].Bins, at.bins), func(w uint64) bool { return w != 0 }) &&
				s.inv.mayJoin(c, &at.place) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		s.inv.ledger.Count(int(c), &s.areas[best].place, 1, 0)
		given[best]++
	}
	sum := int32(0)
	for i, n := range given {
		if n > 0 {
			moves = append(moves, Move{c, int32(i), n})
			sum += n
		}
	}
	return moves, sum == s.nodes.unplaced[c]
}

// both returns the intersection of two sets.
func both(a, b []uint64) []uint64 {
	out := slices.Clone(a)
	for i := range out {
		out[i] &= b[i]
	}
	return out
}

// alone returns the domains of a new node of which only the hostname is known; ok is false if the
// class has no rules on that.
func (s *Launcher) alone(c int32) (at topology.Place, ok bool) {
	keys := s.inv.ledger.Keys()
	host := slices.Index(keys, label.Hostname)
	if !slices.Contains(s.inv.classes[c].Keys, host) {
		return at, false
	}
	at.Domain = slices.Repeat([]int32{topology.Open}, len(keys))
	at.Domain[host] = s.inv.newHost
	return at, true
}

// perBin returns how many unplaced pods of a class one new node may have by rules between pods; 0:
// any number.
func (s *Launcher) perBin(c int32) (n int32) {
	at, ok := s.alone(c)
	for ok && n < s.nodes.unplaced[c] && s.inv.mayJoin(c, &at) {
		s.inv.ledger.Count(int(c), &at, 1, 0)
		n++
	}
	if ok {
		s.inv.ledger.Count(int(c), &at, -n, 0)
	}
	return n
}

// addConflicts notes in the problem which classes may not share a node.
func (s *Launcher) addConflicts(p *cover.Problem, classes []int32) {
	at := make([]topology.Place, len(classes))
	ruled := make([]bool, len(classes))
	for i, c := range classes {
		at[i], ruled[i] = s.alone(c)
		ruled[i] = ruled[i] && s.inv.mayJoin(c, &at[i])
	}
	for i, c := range classes {
		if !ruled[i] {
			continue
		}
		s.inv.ledger.Count(int(c), &at[i], 1, 0)
		s.inv.model.Meter.Spend(len(classes) - i)
		for k := i + 1; k < len(classes); k++ {
			if ruled[k] && classes[k] != c && !s.inv.mayJoin(classes[k], &at[i]) {
				p.Classes[i].Conflicts = append(p.Classes[i].Conflicts, int32(k))
			}
		}
		s.inv.ledger.Count(int(c), &at[i], -1, 0)
	}
}
