package disrupt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
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

// chunkRoom answers for how many chunks of each capacity buffer there is room after some commands. Where
// the chunks are then, pack decides anew, and it may not find what the search for consolidation has
// found; and kube-scheduler, which knows nothing of chunks, may bind the moved pods where the search has put
// chunks. Then nodes would be launched for them, and consolidated again.
type chunkRoom struct {
	snap   *cluster.Snapshot // with its buffers, and the room of commands in progress taken
	opts   pack.Options
	before []plan.BufferRoom // what nodes hold now; nil: not asked for yet
	asked  int
}

// roomsMax bounds for how many commands of one decision that is worked out.
const roomsMax = 32

// losesChunks returns why a command must not begin after those that begin before: a capacity buffer
// would have less room.
func (w *work) losesChunks(step *plan.Command) verdict.Verdict {
	r := &w.chunks
	if r.snap == nil || len(r.snap.Buffers) == 0 {
		return verdict.Verdict{}
	}
	no := func(format string, args ...any) verdict.Verdict {
		return verdict.Of(verdict.NoReplacement, step.Remove[0].Node, format, args...)
	}
	if r.asked++; r.asked > roomsMax {
		return no("a later decision finds out whether capacity buffers keep their room")
	}
	if r.before == nil {
		r.before = r.held(newOverlay(r.snap).snap)
	}
	commands := append(slices.Clip(w.out.Commands), *step)
	for _, way := range []struct {
		bind func(commands []plan.Command) *cluster.Snapshot
		when string
	}{
		{r.asPlanned, ""},
		{r.spread, ", if kube-scheduler binds the node's pods to the emptiest nodes"},
		{r.whenGone, ", once the node is gone"},
	} {
		for i, b := range r.held(way.bind(commands)) {
			if had, has := r.before[i].HeldCount(), b.HeldCount(); has < had {
				return no("capacity buffer %s/%s would have room for %d pods, not for %d%s", b.Namespace, b.Name, has, had, way.when)
			}
		}
	}
	return verdict.Verdict{}
}

// keepChunks is losesChunks for a command that may launch nodes for the chunks, if it saves enough all the
// same. It adds these launches to the command.
func (w *work) keepChunks(step *plan.Command) verdict.Verdict {
	why := w.losesChunks(step)
	if why.IsYes() || w.chunks.asked > roomsMax {
		return why
	}
	with := *step
	for _, l := range w.chunks.launches(append(slices.Clip(w.out.Commands), *step)) {
		with.Launch = append(slices.Clip(with.Launch), l)
		with.SavingHourly -= l.PriceHourly
	}
	if len(with.Launch) == len(step.Launch) || with.SavingHourly < with.CostHourly || w.replacesSpot(&with) || !w.future.over.withinLimits(with.Launch) {
		return why
	}
	if lost := w.losesChunks(&with); !lost.IsYes() {
		return why
	}
	*step = with
	return verdict.Verdict{}
}

// replacesSpot reports whether a command removes spot nodes and launches nodes that may be spot, which only
// the search for consolidation can weigh.
func (w *work) replacesSpot(step *plan.Command) bool {
	return slices.ContainsFunc(step.Remove, func(r plan.Removal) bool {
		return w.snap.Nodes[w.future.over.at[r.Node]].Labels[label.CapacityType] == label.Spot
	}) && slices.ContainsFunc(step.Launch, func(l plan.Launch) bool {
		capacity, said := l.Requirements[label.CapacityType]
		return !said || capacity.Allows(label.Spot)
	})
}

// launches returns what is launched for chunks alone after commands, where kube-scheduler binds their pods;
// none, if a buffer lacks room now.
func (r *chunkRoom) launches(commands []plan.Command) []plan.Launch {
	if slices.ContainsFunc(r.before, func(b plan.BufferRoom) bool { return b.HeldCount() < b.Chunks }) {
		return nil
	}
	p := pack.Decide(r.spread(commands), r.opts)
	return slices.DeleteFunc(p.Launches, func(l plan.Launch) bool { return len(l.Pods) > 0 || len(l.Chunks) == 0 })
}

// held returns where chunks are, if nothing is launched for them.
func (r *chunkRoom) held(snap *cluster.Snapshot) []plan.BufferRoom {
	snap.Buffers = slices.Clone(snap.Buffers)
	for i := range snap.Buffers {
		snap.Buffers[i].LaunchAfter = snap.At.Add(time.Second)
	}
	p := pack.Decide(snap, r.opts)
	return p.Buffers
}

// asPlanned returns the cluster after commands, with their pods where the commands put them.
func (r *chunkRoom) asPlanned(commands []plan.Command) *cluster.Snapshot {
	o := r.after(commands)
	var moves []plan.Assignment
	for i := range commands {
		moves = append(moves, commands[i].Moves...)
		for j := range commands[i].Launch {
			for _, ref := range commands[i].Launch[j].Pods {
				moves = append(moves, plan.Assignment{Pod: ref, Node: launchName(i, j)})
			}
		}
	}
	return r.bound(o, moves)
}

// whenGone is asPlanned once the nodes that the commands remove are gone: rules between chunks count nodes as long as they are
// there, so without them pack may place chunks otherwise.
func (r *chunkRoom) whenGone(commands []plan.Command) *cluster.Snapshot {
	later := r.asPlanned(commands)
	gone := map[string]bool{}
	for i := range commands {
		for _, removal := range commands[i].Remove {
			gone[removal.Node] = true
		}
	}
	later.Nodes = slices.DeleteFunc(slices.Clone(later.Nodes), func(n cluster.Node) bool { return gone[n.Name] })
	return later
}

// spread returns the cluster after commands, with their pods where kube-scheduler binds them.
func (r *chunkRoom) spread(commands []plan.Command) *cluster.Snapshot {
	o := r.after(commands)
	pods := *o.snap
	pods.Pending, pods.Buffers, pods.Gangs = slices.Clone(pods.Pending), nil, nil
	moves, ok := pack.Spread(&pods, r.opts)
	if !ok {
		return r.asPlanned(commands)
	}
	return r.bound(o, moves)
}

// after returns the cluster after commands, with no other pending pods than theirs.
func (r *chunkRoom) after(commands []plan.Command) *overlay {
	o := newOverlay(r.snap)
	var gone []int
	for i := range commands {
		for _, removal := range commands[i].Remove {
			gone = append(gone, o.at[removal.Node])
		}
	}
	o.snap.Pending = nil
	o.remove(gone)
	for i := range o.snap.Pending {
		o.snap.Pending[i].Planned = ""
	}
	for i := range commands {
		for j := range commands[i].Launch {
			l, name := &commands[i].Launch[j], launchName(i, j)
			o.at[name] = len(o.snap.Nodes)
			o.snap.Nodes = append(o.snap.Nodes, cluster.Node{
				Name: name, Claim: name, Pool: l.Pool, Created: o.snap.At, Empty: true, Initialized: true,
				InFlight: &cluster.InFlightClaim{Requirements: l.Requirements, Types: l.Types},
			})
		}
	}
	return o
}

// launchName stands for the node that is launched by a command, both by their indexes.
func launchName(command, launch int) string { return fmt.Sprintf("launch %d.%d", command, launch) }

// bound returns the cluster with the pods of commands on nodes, and pending what is pending now.
func (r *chunkRoom) bound(o *overlay, moves []plan.Assignment) *cluster.Snapshot {
	o.assign(moves)
	o.snap.Pending = append(o.snap.Pending, r.snap.Pending...)
	return o.snap
}
