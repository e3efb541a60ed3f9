package mirror

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	// evictionKept is how long the evictions of a controller's pods are remembered while no
	// replacement has come. It bounds the number of controllers in memory.
	evictionKept = 10 * time.Minute
	// soon is how soon after a replacement came its own eviction counts as one more move in a
	// row. It doubles from move to move, as does the time for which consolidation leaves the
	// pod alone.
	soon = 30 * time.Minute
	// movesMost is how many moves in a row are counted.
	movesMost = 8
)

// evictions remember the evicted pods that have not been replaced yet, by the controller that
// will replace them.
type evictions struct {
	// started is when this process started. Earlier evictions are not known. Zero: there were none.
	started time.Time

	byController map[types.UID]evicted
}

func newEvictions(started time.Time) *evictions {
	return &evictions{started: started, byController: map[types.UID]evicted{}}
}

// evicted are the evictions of one controller's pods that have not been replaced yet.
type evicted struct {
	pods int
	last time.Time
	// moves is the largest number of moves in a row of one of these pods.
	moves int
}

// see records the eviction of a pod, or that the pod replaces an evicted one: the first pod
// that its controller creates afterwards. had is the state before; nil: the pod is new.
func (x *evictions) see(had, p *pod, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(p.object)
	if owner == nil {
		return
	}
	e := x.byController[owner.UID]
	switch {
	case translate.Evicted(p.object) && (had == nil || !translate.Evicted(had.object)):
		x.byController[owner.UID] = evicted{e.pods + 1, now, max(e.moves, p.history.movesBy(now))}
	case had == nil && e.pods > 0 && now.Sub(e.last) < evictionKept && translate.Active(p.object):
		p.history.movedAt, p.history.moves = p.object.CreationTimestamp.Time, e.moves
		if e.pods--; e.pods == 0 {
			delete(x.byController, owner.UID)
			return
		}
		x.byController[owner.UID] = e
	}
}

// expire forgets evictions that nothing has replaced for long.
func (x *evictions) expire(now time.Time) {
	maps.DeleteFunc(x.byController, func(_ types.UID, e evicted) bool { return now.Sub(e.last) >= evictionKept })
}

// movesBy returns how many times in a row a pod has moved that is evicted now.
func (h *history) movesBy(now time.Time) int {
	if h.movedAt.IsZero() || now.Sub(h.movedAt) >= soon<<max(h.moves-1, 0) {
		return 1
	}
	return min(h.moves+1, movesMost)
}

// movedTo returns when a pod came to a node as the replacement of an evicted pod; zero: it did
// not. Evictions from before this process started cannot be known. So a pod with a controller
// counts as a replacement if both it and its node are older than the process.
func (x *evictions) movedTo(n *cluster.Node, p *pod) time.Time {
	isOlder := func(t time.Time) bool { return t.Before(x.started) }
	created := p.object.CreationTimestamp.Time
	if p.history.movedAt.IsZero() && isOlder(created) && isOlder(n.Created) && metav1.GetControllerOfNoCopy(p.object) != nil {
		return created
	}
	return p.history.movedAt
}
