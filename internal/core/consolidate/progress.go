package consolidate

import "slices"

// tally is how much of each goal some pods fill. There are thousands of goals, and a change
// of the pods concerns few of them.
type tally struct {
	pods []int32 // by kind
	// wanting are, by kind, the goals that want pods of it. Those that are bought may be
	// among them.
	wanting [][]wanted
	filled  []float64 // by goal, the share of its worth that it would get
	some    []int32   // goals of which something has been filled; one may be there twice
	closed  []bool    // by goal: it is bought, or should not be now
}

// wanted says how many pods a goal wants, and what share of its worth is one.
type wanted struct {
	goal, n int32
	share   float64
}

// newTally makes the tally of so many kinds of pods, of which worth tells what one is worth.
func newTally(goals []goal, kinds int, worth func(kind int32) float64) tally {
	y := tally{pods: make([]int32, kinds), wanting: make([][]wanted, kinds), filled: make([]float64, len(goals)), closed: make([]bool, len(goals))}
	for g := range goals {
		for _, sh := range goals[g].want {
			y.wanting[sh.Class] = append(y.wanting[sh.Class], wanted{int32(g), sh.N, worth(sh.Class) / goals[g].worth})
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
	was := y.pods[kind]
	if n == was {
		return
	}
	y.pods[kind] = n
	for _, w := range y.wanting[kind] {
		if y.filled[w.goal] == 0 {
			y.some = append(y.some, w.goal)
		}
		y.filled[w.goal] += w.share * float64(min(n, w.n)-min(was, w.n))
	}
}

// fullest returns the goal to be bought next: that of which the pods fill most; -1: none.
func (y *tally) fullest() int {
	best, most := int32(-1), fillMin
	for _, g := range y.some {
		if share := y.filled[g]; (share > most || share == most && g < best) && !y.closed[g] {
			best, most = g, share
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
