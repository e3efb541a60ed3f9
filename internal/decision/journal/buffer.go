package journal

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// nodesNamed is how many nodes are named on which a buffer has room.
const nodesNamed = 5

// buffers says what was decided about CapacityBuffers.
func (x *speaker) buffers() {
	for i := range x.decision.Plan.Buffers {
		b := &x.decision.Plan.Buffers[i]
		a, _ := x.of(identity{KindBuffer, b.Namespace, b.Name, b.UID})
		if chunk := x.chunk(b); chunk != nil {
			a.facts = chunk
		}
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
func (x *speaker) chunk(b *plan.BufferRoom) []string {
	for i := range x.decision.Snapshot.Buffers {
		if s := &x.decision.Snapshot.Buffers[i]; s.Namespace == b.Namespace && s.Name == b.Name {
			return []string{fmt.Sprintf("%s of %s each", times(b.Chunks, "chunk"), amounts(s.Constraints.Requests))}
		}
	}
	return nil
}

// room says where a buffer has room.
func (x *speaker) room(b *plan.BufferRoom) string {
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
