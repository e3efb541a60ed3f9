package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cover"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// area is where bins are, as far as rules between pods can tell them apart, hostnames aside.
type area struct {
	place topology.Place
	bins  []uint64
}

// BuyMany is Buy that looks harder, for many pods. What rules between pods say is settled
// before: in which zone each is to be, and what may not share a machine. Where that was not
// enough, or pods want host ports, it is false.
func (s *Session) BuyMany(limit float64) bool {
	many := s.bestOfLoose()
	if many == nil || many.Price >= limit {
		return false
	}
	mark := len(s.log)
	var ruled []Move
	for _, pattern := range many.Patterns {
		for range pattern.Times {
			h, ok := s.Open(pattern.Bin)
			if !ok {
				s.unwind(mark)
				return false
			}
			for _, item := range pattern.Items {
				c, n := many.classes[item.Class], int32(item.N)
				if s.fills.keyed[c] {
					ruled = append(ruled, Move{c, int32(h), n})
					continue
				}
				s.add(c, h, n)
			}
		}
	}
	s.PutAll(ruled)
	for _, h := range s.Bought(mark) {
		s.Close(h)
	}
	if s.AnyLoose() {
		s.unwind(mark)
		return false
	}
	return true
}

// many is what would be bought for pods at once, with the session's class of each of its classes.
type many struct {
	cover.Solution
	classes []int32
}

// manyMax is how many answers are remembered.
const manyMax = 1024

// bestOfLoose returns what would be bought for the loose pods, pools' limits aside; nil: nothing
// that takes all. Searches ask for the same pods again, in every order that they try.
func (s *Session) bestOfLoose() *many {
	s.gather()
	sum := s.sumOfLoose()
	if m, known := s.answers[sum]; known {
		return m
	}
	var m *many
	if p, classes, ok := s.problemOfLoose(); ok {
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

// PutAll puts loose pods where the moves say, and takes those that were put off what the moves
// ask for. Rules between pods may ask for another order than theirs, so it goes round as long
// as something is done.
func (s *Session) PutAll(moves []Move) {
	for progress := true; progress; {
		progress = false
		for i := range moves {
			m := &moves[i]
			n := s.Put(m.Class, int(m.Host), min(m.N, s.loose[m.Class]))
			m.N -= n
			progress = progress || n > 0
		}
	}
}

// problemOfLoose returns the problem of buying for the loose pods, and the session's class of
// each of its classes. It is false where rules between pods leave one nowhere to go.
func (s *Session) problemOfLoose() (p *cover.Problem, classes []int32, ok bool) {
	p = &cover.Problem{Dims: s.problem.Dims, Bins: s.problem.Bins}
	var counted []Move // the host is an area
	defer func() {
		for _, m := range counted {
			s.ledger.Count(int(m.Class), &s.areas[m.Host].place, -m.N, 0)
		}
	}()
	for _, c := range s.size {
		if s.loose[c] == 0 {
			continue
		}
		if len(s.classes[c].shape.Ports) > 0 || s.isOdd(c) {
			return nil, nil, false
		}
		class := s.problem.Classes[c]
		class.Count = int(s.loose[c])
		class.PerBin = int(s.perBin(c))
		if !slices.ContainsFunc(s.classes[c].keys, func(k int) bool { return s.ledger.Keys()[k] != label.Hostname }) {
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
			class.Count, class.Bins = int(m.N), both(s.problem.Classes[c].Bins, s.areas[m.Host].bins)
			p.Classes, classes = append(p.Classes, class), append(classes, c)
		}
	}
	s.addConflicts(p, classes)
	return p, classes, true
}

// addAreas sorts the bins by where they are.
func (s *Session) addAreas() {
	open := func(at *topology.Place) topology.Place {
		out := topology.Place{Domain: slices.Clone(at.Domain), Counts: at.Counts}
		for k, key := range s.ledger.Keys() {
			if key == label.Hostname {
				out.Domain[k] = topology.Open
			}
		}
		return out
	}
	first := []int{}
	for b := range s.bins {
		at := slices.IndexFunc(first, func(o int) bool { return s.bins[o].alike(&s.bins[b]) })
		if at < 0 {
			at = len(first)
			first = append(first, b)
			s.areas = append(s.areas, area{open(&s.bins[b].place), make([]uint64, (len(s.bins)+63)/64)})
		}
		s.areas[at].bins[b/64] |= 1 << (b % 64)
	}
}

// allot gives the loose pods of a class areas, each that with fewest of them where it may be,
// and counts them there. It appends how many each gets.
func (s *Session) allot(c int32, moves []Move) (all []Move, ok bool) {
	given := make([]int32, len(s.areas))
	for range s.loose[c] {
		best := -1
		for i := range s.areas {
			at := &s.areas[i]
			if (best < 0 || given[i] < given[best]) && slices.ContainsFunc(both(s.problem.Classes[c].Bins, at.bins), func(w uint64) bool { return w != 0 }) &&
				s.mayJoin(c, &at.place) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		s.ledger.Count(int(c), &s.areas[best].place, 1, 0)
		given[best]++
	}
	sum := int32(0)
	for i, n := range given {
		if n > 0 {
			moves = append(moves, Move{c, int32(i), n})
			sum += n
		}
	}
	return moves, sum == s.loose[c]
}

// both returns what is in two sets.
func both(a, b []uint64) []uint64 {
	out := slices.Clone(a)
	for i := range out {
		out[i] &= b[i]
	}
	return out
}

// alone returns a new machine of which nothing but its hostname is known, if the class has
// rules on that.
func (s *Session) alone(c int32) (at topology.Place, ok bool) {
	keys := s.ledger.Keys()
	host := slices.Index(keys, label.Hostname)
	if !slices.Contains(s.classes[c].keys, host) {
		return at, false
	}
	at.Domain = slices.Repeat([]int32{topology.Open}, len(keys))
	at.Domain[host] = s.fills.hosts
	return at, true
}

// perBin returns how many loose pods of a class one new machine may have by rules between
// them; 0: all.
func (s *Session) perBin(c int32) (n int32) {
	at, ok := s.alone(c)
	for ok && n < s.loose[c] && s.mayJoin(c, &at) {
		s.ledger.Count(int(c), &at, 1, 0)
		n++
	}
	if ok {
		s.ledger.Count(int(c), &at, -n, 0)
	}
	return n
}

func (s *Session) mayJoin(c int32, at *topology.Place) bool {
	return s.ledger.Check(int(c), at, s.classes[c].last().wishesFrom, false).IsYes()
}

// addConflicts notes which classes may not share a machine.
func (s *Session) addConflicts(p *cover.Problem, classes []int32) {
	at := make([]topology.Place, len(classes))
	ruled := make([]bool, len(classes))
	for i, c := range classes {
		at[i], ruled[i] = s.alone(c)
		ruled[i] = ruled[i] && s.mayJoin(c, &at[i])
	}
	for i, c := range classes {
		if !ruled[i] {
			continue
		}
		s.ledger.Count(int(c), &at[i], 1, 0)
		s.model.meter.Spend(len(classes) - i)
		for k := i + 1; k < len(classes); k++ {
			if ruled[k] && classes[k] != c && !s.mayJoin(classes[k], &at[i]) {
				p.Classes[i].Conflicts = append(p.Classes[i].Conflicts, int32(k))
			}
		}
		s.ledger.Count(int(c), &at[i], -1, 0)
	}
}
