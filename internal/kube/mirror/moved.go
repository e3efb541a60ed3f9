package mirror

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// movedKept is how long evictions are remembered of a controller from which another pod is
// to come: it bounds how many controllers are.
const movedKept = 10 * time.Minute

const (
	// soon is within what time after a pod came in the place of an evicted one it is evicted soon: it
	// doubles from move to move, as the time does for which consolidation lets it be.
	soon = 30 * time.Minute
	// movesMost is how many moves in a row are counted.
	movesMost = 8
)

// evicted are the evictions of one controller's pods in whose place no pod has come yet.
type evicted struct {
	pods int
	last time.Time
	// moves is how many times in a row one of them had to move.
	moves int
}

// seeMove takes note of an eviction, and of the pod that comes in the place of an evicted
// one: the next that its controller makes. had is nil for a pod that is new.
func (s *Store) seeMove(had, p *pod) {
	owner := metav1.GetControllerOf(p.Pod)
	if owner == nil {
		return
	}
	now, e := s.opts.Now(), s.evicted[owner.UID]
	switch {
	case translate.Evicted(p.Pod) && (had == nil || !translate.Evicted(had.Pod)):
		s.evicted[owner.UID] = evicted{e.pods + 1, now, max(e.moves, p.movesBy(now))}
	case had == nil && e.pods > 0 && now.Sub(e.last) < movedKept && translate.Active(p.Pod):
		p.movedAt, p.moves = p.CreationTimestamp.Time, e.moves
		if e.pods--; e.pods == 0 {
			delete(s.evicted, owner.UID)
			return
		}
		s.evicted[owner.UID] = e
	}
}

// movesBy returns how many times in a row a pod has moved that is evicted now.
func (h *history) movesBy(now time.Time) int {
	if h.movedAt.IsZero() || now.Sub(h.movedAt) >= soon<<max(h.moves-1, 0) {
		return 1
	}
	return min(h.moves+1, movesMost)
}

// movedTo returns when a pod came to a machine, perhaps in the place of an evicted one; zero: it
// did not. What was evicted before we were is not to be read from what is left, so any pod
// may have been that is older than we are, as is its machine.
func (s *Store) movedTo(n *cluster.Node, p *pod) time.Time {
	ours := func(t time.Time) bool { return !t.Before(s.opts.Started) }
	if made := p.CreationTimestamp.Time; p.movedAt.IsZero() && !ours(made) && !ours(n.Created) && metav1.GetControllerOf(p.Pod) != nil {
		return made
	}
	return p.movedAt
}

// homeBy returns the machine that a step means the pod for; empty: none.
func (h *history) homeBy(step string) string {
	if step == "" || h.homeOf != step {
		return ""
	}
	return h.home
}
