package disrupt_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// restRounds is after how many rounds a cluster in which nothing happens must be at rest.
const restRounds = 12

// TestBuffersComeToRest carries out what is decided about random clusters with buffers, round by
// round: what provisioning launches, and what disruption removes and launches. Soon there is nothing
// more to do, every chunk that can have room has it, and no node is there that no pod or chunk needs.
func TestBuffersComeToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { comesToRest(t, anyBuffers(t)) })
}

// Chunks with rules among each other, too: where they fit can depend on nodes that are there and hold none. When these
// clusters were found, nodes were launched and removed again without end.
func TestBuffersWithRulesComeToRest(t *testing.T) {
	t.Parallel()
	for _, buffers := range []string{
		"buffer b0 chunks=1 cpu=125m app=y spread=host:2:0:x|y\nbuffer b1 chunks=3 cpu=1722m app=y spread=host:2:0:x|y\nbuffer b2 chunks=3 cpu=154m app=x with=host:y",
		"buffer b0 chunks=1 cpu=100m app=y spread=host:2:0:x|y\nbuffer b1 chunks=3 cpu=3070m app=y spread=host:1\nbuffer b2 chunks=5 cpu=138m app=x apart=host:x",
	} {
		comesToRest(t, pool+"\n"+buffers)
	}
}

// comesToRest fails if something is decided for ever, or a chunk has no room in the end.
func comesToRest(t rapid.TB, text string) {
	t.Helper()
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	w := &still{snap: snap}
	var log []string
	for round := 0; ; round++ {
		did := w.provision()
		did += w.disrupt(t)
		if did == "" {
			break
		}
		if log = append(log, did); round == restRounds {
			t.Fatalf("no rest after %d rounds of\n%s\n%s", restRounds, text, log)
		}
	}
	p := pack.Decide(w.snap, pack.Options{})
	for _, b := range p.Buffers {
		if b.HeldCount() != b.Chunks {
			t.Fatalf("at rest, buffer %s has room for %d of %d: %s\n%s\n%s", b.Name, b.HeldCount(), b.Chunks, b.Why, text, log)
		}
	}
}

const pool = `
type small cpu=2 memory=8Gi price=0.10
type large cpu=4 memory=16Gi price=0.19
type huge cpu=16 memory=64Gi price=0.70
pool general budget=100% types=small,large,huge after=0s`

// anyBuffers returns a cluster with buffers that its pool can hold, and half-empty nodes.
func anyBuffers(t *rapid.T) string {
	text := pool
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		text += fmt.Sprintf("\nnode n%d pool=general type=%s empty", i, rapid.SampledFrom([]string{"small", "large", "huge"}).Draw(t, "type"))
		if rapid.Bool().Draw(t, "used") {
			text = text[:len(text)-len(" empty")] + fmt.Sprintf("\nrunning r%d on=n%d cpu=%dm app=%s", i, i, rapid.IntRange(100, 2000).Draw(t, "cpu"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "app"))
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "buffers") {
		text += fmt.Sprintf("\nbuffer b%d chunks=%d cpu=%dm %s", i, rapid.IntRange(1, 6).Draw(t, "chunks"), rapid.IntRange(100, 4000).Draw(t, "chunk cpu"),
			rapid.SampledFrom([]string{"", "app=x apart=host:x", "app=y spread=host:1", "app=x apart=host:y"}).Draw(t, "rule"))
	}
	return text
}

// still is a cluster in which only what is decided happens, at once.
type still struct {
	snap     *cluster.Snapshot
	launched int
}

// provision launches what provisioning decides, and says what that was.
func (w *still) provision() (did string) {
	p := pack.Decide(w.snap, pack.Options{})
	for i := range p.Launches {
		did += "launch " + w.launch(&p.Launches[i]) + " "
	}
	return did
}

// launch adds the node that the cloud makes of a launch: the cheapest.
func (w *still) launch(l *plan.Launch) string {
	next := *w.snap
	pool, _ := next.PoolByName(l.Pool)
	for _, t := range pool.Types {
		if t.Name != l.Types[0] {
			continue
		}
		w.launched++
		name := fmt.Sprintf("new%d", w.launched)
		next.Nodes = append(slices.Clone(next.Nodes), cluster.Node{
			Name: name, Claim: name, Pool: l.Pool, Capacity: t.Capacity, Allocatable: t.Allocatable(), Initialized: true, Ready: true, Empty: true,
			Labels:  map[string]string{label.InstanceType: t.Name, label.Zone: "a", label.CapacityType: label.OnDemand, label.NodePool: l.Pool},
			Created: next.At, LastPodEvent: next.At,
		})
		w.snap = &next
		return name + " (" + t.Name + ")"
	}
	return ""
}

// disrupt carries out one command, and says what it was.
func (w *still) disrupt(t rapid.TB) string {
	next := *w.snap
	next.At = next.At.Add(2 * time.Hour) // no cooldown, no young node
	w.snap = &next
	p, _ := disrupt.Propose(w.snap, disrupt.Memory{}, disrupt.Options{})
	if len(p.Commands) == 0 {
		return ""
	}
	c, moved, did := &p.Commands[0], map[cluster.PodRef]cluster.ReschedulablePod{}, p.Commands[0].Reason
	next.Nodes = slices.Clone(next.Nodes)
	for _, r := range c.Remove {
		at := slices.IndexFunc(next.Nodes, func(n cluster.Node) bool { return n.Name == r.Node })
		for _, pod := range next.Nodes[at].Reschedulable {
			moved[pod.PodRef] = pod
		}
		next.Nodes, did = slices.Delete(next.Nodes, at, at+1), did+" "+r.Node
	}
	for _, m := range c.Moves {
		w.put(m.Node, moved[m.Pod])
		delete(moved, m.Pod)
	}
	for i := range c.Launch {
		l := &c.Launch[i]
		node := w.launch(l)
		did += " for " + node
		for _, ref := range l.Pods {
			w.put(w.snap.Nodes[len(w.snap.Nodes)-1].Name, moved[ref])
			delete(moved, ref)
		}
	}
	if len(moved) > 0 {
		t.Fatalf("the command forgets %v", moved)
	}
	slices.SortFunc(w.snap.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	return did
}

// put binds a pod to a node.
func (w *still) put(node string, pod cluster.ReschedulablePod) {
	for i := range w.snap.Nodes {
		if n := &w.snap.Nodes[i]; n.Name == node {
			n.Reschedulable = append(slices.Clip(n.Reschedulable), pod)
			n.Pods = append(slices.Clip(n.Pods), cluster.PodCount{Constraints: pod.Constraints, Count: 1})
			n.Used, n.Empty = n.Used.Plus(pod.Constraints.Requests), false
		}
	}
}
