package cover

import (
	"path/filepath"
	"testing"
)

func TestScenariosAreSolved(t *testing.T) {
	t.Parallel()
	for _, path := range scenarios(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			p := readProblem(t, path)
			s := Solve(p, Effort{Passes: 2})
			check(t, p, s)
			if len(s.Unplaced) > 0 {
				t.Errorf("%d classes are not all placed", len(s.Unplaced))
			}
		})
	}
}
