package journal

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// nodesNamed is how many nodes are named on which a buffer has room.
const nodesNamed = 5

// buffers gathers what was decided about CapacityBuffers of that name.
func (x *explainer) buffers() {
	if !x.about(KindBuffer) {
		return
	}
	for i := range x.decision.Plan.Buffers {
		b := &x.decision.Plan.Buffers[i]
		if b.Name != x.subject.Name || x.subject.Namespace != "" && b.Namespace != x.subject.Namespace {
			continue
		}
		a := x.answer(KindBuffer, b.Namespace+"/"+b.Name, b.UID)
		a.Facts = x.chunk(b)
		if missing := b.Chunks - b.HeldCount() - b.Launched; missing > 0 {
			x.say(a, fmt.Sprintf("no room for %d of %s (%s)", missing, times(b.Chunks, "chunk"), b.Why.Reason), append(misses(&b.Why), x.room(b))...)
			continue
		}
		what := "room for all of " + times(b.Chunks, "chunk")
		if b.Launched > 0 {
			what = fmt.Sprintf("nodes launched for %d of %s", b.Launched, times(b.Chunks, "chunk"))
		}
		x.say(a, what, x.room(b))
	}
}

// chunk says what one chunk of a buffer asks for.
func (x *explainer) chunk(b *plan.BufferRoom) []string {
	for i := range x.decision.Snapshot.Buffers {
		if s := &x.decision.Snapshot.Buffers[i]; s.Namespace == b.Namespace && s.Name == b.Name {
			return []string{fmt.Sprintf("%s of %s each", times(b.Chunks, "chunk"), amounts(s.Constraints.Requests))}
		}
	}
	return nil
}

// room says where a buffer has room.
func (x *explainer) room(b *plan.BufferRoom) string {
	text := ""
	for i, h := range b.Held {
		if i == nodesNamed {
			text += fmt.Sprintf(" and %d more nodes", len(b.Held)-i)
			break
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d on %s", h.Count, h.Node)
	}
	if b.Launched > 0 {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("nodes launched for %d", b.Launched)
	}
	return text
}
