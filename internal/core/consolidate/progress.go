package consolidate

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/repack"
)

// progress is how full some pods make each target. There are thousands of targets, and a change of
// the pods concerns few of them.
type progress struct {
	pods []int32 // by kind
	// wanting are, by kind, the targets that want pods of it. Launched ones may be among them.
	wanting [][]wanted
	filled  []float64 // by target, the share of its worth that it would get
	some    []int32   // targets of which something has been filled; one may be there twice
	closed  []bool    // by target: it is launched, or must not be now
}

// wanted says how many pods a target wants, and what share of its worth is one.
type wanted struct {
	target, n int32
	share     float64
}

// newProgress returns the progress of so many kinds of pods; worth returns what one is worth.
func newProgress(targets []target, kinds int, worth func(kind int32) float64) progress {
	y := progress{pods: make([]int32, kinds), wanting: make([][]wanted, kinds), filled: make([]float64, len(targets)), closed: make([]bool, len(targets))}
	for g := range targets {
		for _, sh := range targets[g].want {
			y.wanting[sh.Class] = append(y.wanting[sh.Class], wanted{int32(g), sh.N, worth(sh.Class) / targets[g].worth})
		}
	}
	return y
}

// clear takes all pods away.
func (y *progress) clear() {
	for _, g := range y.some {
		y.filled[g] = 0
	}
	y.some = y.some[:0]
	clear(y.pods)
}

// set sets the number of pods of a kind.
func (y *progress) set(kind, n int32) {
	was := y.pods[kind]
	if n == was {
		return
	}
	y.pods[kind] = n
	for _, w := range y.wanting[kind] {
		if y.filled[w.target] == 0 {
			y.some = append(y.some, w.target)
		}
		y.filled[w.target] += w.share * float64(min(n, w.n)-min(was, w.n))
	}
}

// fullest returns the target to launch next: the one that the pods fill most; -1: none.
func (y *progress) fullest() int {
	best, most := int32(-1), fillMin
	for _, g := range y.some {
		if share := y.filled[g]; (share > most || share == most && g < best) && !y.closed[g] {
			best, most = g, share
		}
	}
	return int(best)
}

// drop forgets targets that are launched.
func (y *progress) drop(targets []target) {
	for kind := range y.wanting {
		y.wanting[kind] = slices.DeleteFunc(y.wanting[kind], func(w wanted) bool { return targets[w.target].host >= 0 })
	}
}

// target is a node to be launched, and the pods that it still wants, by kind.
type target struct {
	bin   int32
	want  []repack.Share
	worth float64
	host  int // -1: it is not launched
}
