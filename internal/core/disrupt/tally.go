package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
)

// tally is how much of each goal some pods fill. There are thousands of goals, and a change
// of the pods concerns few of them.
type tally struct {
	pods  []int32   // by kind
	worth []float64 // by kind, of a pod
	// wanting are, by kind, the goals that want pods of it, and how many. Those that are
	// bought may be among them.
	wanting [][]wanted
	filled  []float64 // by goal, what the pods that it would get are worth
	some    []int32   // goals of which something has been filled; one may be there twice
}

type wanted struct {
	goal, n int32
}

// fillMin is how much of a goal must be filled: less is what sums lose.
const fillMin = 1e-9

func newTally(s *pack.Session, goals []goal) tally {
	n := s.Classes()
	y := tally{pods: make([]int32, n), worth: make([]float64, n), wanting: make([][]wanted, n), filled: make([]float64, len(goals))}
	for kind := range y.worth {
		y.worth[kind] = s.WorthOf(int32(kind))
	}
	for g := range goals {
		for _, sh := range goals[g].want {
			y.wanting[sh.Class] = append(y.wanting[sh.Class], wanted{int32(g), sh.N})
		}
	}
	return y
}

// clear takes all pods away.
func (y *tally) clear() {
	for _, g := range y.some {
		y.filled[g] = 0
	}
	y.some = y.some[:0]
	clear(y.pods)
}

// set makes it n pods of a kind.
func (y *tally) set(kind, n int32) {
	was, worth := y.pods[kind], y.worth[kind]
	if n == was {
		return
	}
	y.pods[kind] = n
	for _, w := range y.wanting[kind] {
		if y.filled[w.goal] == 0 {
			y.some = append(y.some, w.goal)
		}
		y.filled[w.goal] += worth * float64(min(n, w.n)-min(was, w.n))
	}
}

// fullest returns the goal to be bought next: that of which the pods fill most; -1: none.
func (y *tally) fullest(goals []goal) int {
	best, most := int32(-1), fillMin
	for _, g := range y.some {
		if o := &goals[g]; o.host < 0 && !o.near {
			if share := y.filled[g] / o.worth; share > most || share == most && g < best {
				best, most = g, share
			}
		}
	}
	return int(best)
}

// drop forgets goals that are bought.
func (y *tally) drop(goals []goal) {
	for kind := range y.wanting {
		y.wanting[kind] = slices.DeleteFunc(y.wanting[kind], func(w wanted) bool { return goals[w.goal].host >= 0 })
	}
}
