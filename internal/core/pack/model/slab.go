package model

// Slab hands out memory that is taken for several at once: each time twice as many as
// before, up to slabMost.
type Slab[T any] struct {
	free []T
	many int
}

const slabMost = 64

// Take returns n zeros.
func (s *Slab[T]) Take(n int) []T {
	if len(s.free) < n {
		s.many = min(max(1, 2*s.many), slabMost)
		s.free = make([]T, s.many*n)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}
