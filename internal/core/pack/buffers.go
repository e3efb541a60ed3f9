package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// This file takes the chunks of capacity buffers into a decision as pods that come last, and out of
// its plan again.

// disruptedTaint keeps pods from nodes that are about to go. It does not keep chunks: one that is
// on such a node stays there until the node goes, and the command has room for it elsewhere.
const disruptedTaint = "karpenter.sh/disrupted"

// withChunks returns the snapshot with the chunks of its buffers among the pending pods.
func withChunks(snap *cluster.Snapshot) *cluster.Snapshot {
	with := *snap
	with.Pending = slices.Clone(snap.Pending)
	for i := range snap.Buffers {
		b := &snap.Buffers[i]
		constraints := *b.Constraints // its own, so that no other pod is of its class
		constraints.Tolerations = append(slices.Clip(constraints.Tolerations), cluster.Toleration{Key: disruptedTaint, Operator: "Exists", Effect: cluster.NoSchedule})
		for n := range b.Chunks {
			with.Pending = append(with.Pending, cluster.Pod{PodRef: b.Chunk(n + 1), Buffer: b.String(), Constraints: &constraints})
		}
	}
	return &with
}

// rooms takes the chunks out of a plan, and notes in it where they are.
type rooms struct {
	of   map[cluster.PodRef]int // by chunk: the index of its buffer
	plan *plan.Plan
}

// extractChunks moves what a plan says of the chunks of the snapshot's buffers to Plan.Buffers.
func extractChunks(snap *cluster.Snapshot, p *plan.Plan) {
	r := rooms{of: map[cluster.PodRef]int{}, plan: p}
	for i := range snap.Buffers {
		b := &snap.Buffers[i]
		p.Buffers = append(p.Buffers, plan.BufferRoom{Namespace: b.Namespace, Name: b.Name, UID: b.UID, Chunks: b.Chunks})
		for n := range b.Chunks {
			r.of[b.Chunk(n+1)] = i
		}
	}
	r.held()
	for i := range p.Launches {
		r.launched(&p.Launches[i], snap.Buffers)
	}
	p.Refusals = slices.DeleteFunc(slices.Clone(p.Refusals), func(refusal plan.Refusal) bool {
		i, is := r.of[refusal.Pod]
		if is && p.Buffers[i].Why.IsYes() {
			p.Buffers[i].Why = refusal.Why
		}
		return is
	})
}

// held takes out the chunks on nodes of the snapshot.
func (r *rooms) held() {
	type key struct {
		buffer int
		node   string
	}
	at := map[key]int{}
	r.plan.Assignments = slices.DeleteFunc(slices.Clone(r.plan.Assignments), func(a plan.Assignment) bool {
		i, is := r.of[a.Pod]
		if !is {
			return false
		}
		held, k := &r.plan.Buffers[i].Held, key{i, a.Node}
		if _, known := at[k]; !known {
			at[k] = len(*held)
			*held = append(*held, plan.Held{Node: a.Node})
		}
		(*held)[at[k]].Count++
		return true
	})
}

// launched takes out the chunks of a launch.
func (r *rooms) launched(l *plan.Launch, buffers []cluster.Buffer) {
	counts := make([]int, len(buffers))
	l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(ref cluster.PodRef) bool {
		i, is := r.of[ref]
		if is {
			counts[i]++
		}
		return is
	})
	for i, n := range counts {
		if n > 0 {
			l.Chunks = append(l.Chunks, plan.Chunks{Buffer: buffers[i].String(), Count: n})
			r.plan.Buffers[i].Launched += n
		}
	}
}

// putChunks puts chunks of a buffer on a node, from the one with this number on.
func putChunks(n *cluster.Node, b *cluster.Buffer, first, count int, constraints *cluster.Constraints) {
	used := n.Used.Plus(nil)
	n.Reschedulable = slices.Clip(n.Reschedulable)
	for i := range count {
		used.Add(constraints.Requests)
		n.Reschedulable = append(n.Reschedulable, cluster.ReschedulablePod{PodRef: b.Chunk(first + i), Buffer: b.String(), Constraints: constraints, Controller: "CapacityBuffer"})
	}
	n.Used, n.Empty = used, false
	n.Pods = append(slices.Clip(n.Pods), cluster.PodCount{Constraints: constraints, Count: int32(min(count, 1<<30))})
	n.Ports = append(slices.Clip(n.Ports), constraints.Ports...)
}

// withhold keeps the chunks of buffers back, until all other pods are placed.
func (s *solver) withhold() {
	s.chunks = make([][]int32, len(s.state.Classes))
	for c := range s.state.Classes {
		if cl := &s.state.Classes[c]; cl.IsBuffer {
			cl.Waits = len(cl.Pods) > 0 && s.waits(cl.Pods[0])
			s.chunks[c], cl.Pods = cl.Pods, nil
			s.withheld += len(s.chunks[c])
		}
	}
}

// release gives the chunks with wanted constraints back, places those that fit on existing nodes,
// and refuses those that no node may be launched for.
func (s *solver) release(wanted func(*cluster.Constraints) bool) {
	for c, pods := range s.chunks {
		if cl := &s.state.Classes[c]; len(pods) > 0 && wanted(cl.Constraints) {
			cl.Pods, s.chunks[c] = pods, nil
			s.withheld -= len(pods)
		}
	}
	s.state.PlaceChunksOnExisting()
	for c := range s.state.Classes {
		cl := &s.state.Classes[c]
		if cl.Waits {
			s.refuseWaiting(cl.Pods)
			cl.Pods = nil
		}
	}
}

func (s *solver) refuseWaiting(chunks []int32) {
	for _, p := range chunks {
		s.refused[p] = verdict.Of(verdict.BufferWaits, "", "no node is launched for the buffer yet")
	}
}

// waits reports whether no node may be launched for a chunk yet.
func (s *solver) waits(chunk int32) bool {
	snap := s.state.Model.Snapshot
	return slices.ContainsFunc(snap.Buffers, func(b cluster.Buffer) bool {
		return b.String() == snap.Pending[chunk].Buffer && b.LaunchAfter.After(snap.At)
	})
}

// isUnseen reports whether chunks have no rules about other pods, and no other pod has one about
// them.
func isUnseen(sh *cluster.Constraints) bool {
	return len(sh.Spread)+len(sh.Affinity)+len(sh.AntiAffinity)+len(sh.Labels) == 0
}

// seenChunks returns the constraints of the other chunks. Their rules may change where pods that
// exist are planned, and must not keep one of these from its node.
func seenChunks(snap *cluster.Snapshot) map[*cluster.Constraints]bool {
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Pending {
		if p := &snap.Pending[i]; p.Buffer != "" && !isUnseen(p.Constraints) {
			seen[p.Constraints] = true
		}
	}
	return seen
}

// anyPlanned reports whether nodes are launched for chunks, or for other pods.
func (s *solver) anyPlanned(chunks bool) bool {
	for p, at := range s.state.Assignments {
		if at.Kind == model.OnPlanned && s.state.Planned[at.Index].Refusal.IsYes() && (s.state.Model.Snapshot.Pending[p].Buffer != "") == chunks {
			return true
		}
	}
	return false
}

// outcome is what a plan does for the pods that exist.
type outcome struct {
	refused int
	byPool  []int // how many are on planned nodes of each pool, by its index in the model
}

func (s *solver) outcome() outcome {
	o := outcome{byPool: make([]int, len(s.state.Model.Pools))}
	for p, at := range s.state.Assignments {
		switch {
		case s.state.Model.Snapshot.Pending[p].Buffer != "":
		case at.Kind == model.Unplaced || at.Kind == model.OnPlanned && !s.state.Planned[at.Index].Refusal.IsYes():
			o.refused++
		case at.Kind == model.OnPlanned:
			o.byPool[s.state.Planned[at.Index].PoolIndex]++
		}
	}
	return o
}

// worse reports whether an outcome is worse than another: more pods are refused, or more are on
// nodes of pools of less weight. The pools are in the order of their weight.
func (o outcome) worse(than outcome, pools []*model.Pool) bool {
	if o.refused != than.refused {
		return o.refused > than.refused
	}
	more := 0 // pods of pools of less weight than those so far
	for i := len(pools) - 1; i > 0; i-- {
		more += o.byPool[i] - than.byPool[i]
		if more > 0 && pools[i-1].NodePool.Weight != pools[i].NodePool.Weight {
			return true
		}
	}
	return false
}
