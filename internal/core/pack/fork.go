package pack

import (
	"slices"
)

// fork returns a solver that goes on from the same point by itself. Nothing must have been
// launched yet.
func (s *solver) fork() *solver {
	f := *s
	f.state, f.refused = s.state.Fork(), slices.Clone(s.refused)
	return &f
}
