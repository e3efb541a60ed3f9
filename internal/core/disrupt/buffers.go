package disrupt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// To a decision the chunks of capacity buffers are pods on the nodes that hold them (pack.HoldChunks).
// Their nodes are wanted and not empty, and they may be moved at no cost. They keep no node from
// being replaced: what has no room then is planned anew.

// heldByBuffer returns why a node stays that has chunks and no pods; yes: it is not such a node.
func heldByBuffer(n *cluster.Node) verdict.Verdict {
	if len(n.Reschedulable) == 0 || n.Evictions() > 0 {
		return verdict.Verdict{}
	}
	var counts []plan.Chunks
	for i := range n.Reschedulable {
		counts = addChunk(counts, n.Reschedulable[i].Buffer)
	}
	words := make([]string, len(counts))
	for i, c := range counts {
		words[i] = fmt.Sprintf("%s (%d chunks)", c.Buffer, c.Count)
	}
	return verdict.Of(verdict.HeldByBuffer, n.Name, "it is held by capacity buffer %s", strings.Join(words, ", "))
}

// addChunk adds a chunk of a buffer to the counts, which are in the order of their first chunks.
// The empty name is no buffer.
func addChunk(counts []plan.Chunks, buffer string) []plan.Chunks {
	if buffer == "" {
		return counts
	}
	at := slices.IndexFunc(counts, func(c plan.Chunks) bool { return c.Buffer == buffer })
	if at < 0 {
		at, counts = len(counts), append(counts, plan.Chunks{Buffer: buffer})
	}
	counts[at].Count++
	return counts
}

// extractChunks takes the chunks out of the commands that begin: nobody else knows of them. What is
// launched for some says so.
func (w *work) extractChunks() {
	buffers := map[cluster.PodRef]string{}
	for i := range w.snap.Nodes {
		for _, r := range w.snap.Nodes[i].Reschedulable {
			if r.Buffer != "" {
				buffers[r.PodRef] = r.Buffer
			}
		}
	}
	if len(buffers) == 0 {
		return
	}
	for i := range w.out.Commands {
		c := &w.out.Commands[i]
		c.Moves = slices.DeleteFunc(slices.Clone(c.Moves), func(m plan.Assignment) bool { return buffers[m.Pod] != "" })
		for j := range c.Launch {
			l := &c.Launch[j]
			for _, ref := range l.Pods {
				l.Chunks = addChunk(l.Chunks, buffers[ref])
			}
			l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(ref cluster.PodRef) bool { return buffers[ref] != "" })
		}
	}
}
