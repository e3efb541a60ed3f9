package model

// Slab hands out slices of memory that is taken for several of them at once: each time for twice
// as many as before, up to slabMost.
type Slab[T any] struct {
	free []T
	many int
}

const slabMost = 64

// Take returns a slice of n zero values.
func (s *Slab[T]) Take(n int) []T {
	if len(s.free) < n {
		s.many = min(max(1, 2*s.many), slabMost)
		s.free = make([]T, s.many*n)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}
