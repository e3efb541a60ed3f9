package pack_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestBuffersTakeNothing: of random clusters some pods are made chunks of buffers. The plan is sound
// for chunks as for pods, refuses no pod that has a place without the chunks, and costs no more than
// both apart.
func TestBuffersTakeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := story.Any(t)
		snap, err := story.Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		chunks := map[*cluster.Constraints]bool{}
		var pods []cluster.Pod
		for i := range snap.Pending {
			p := &snap.Pending[i]
			if _, drawn := chunks[p.Constraints]; !drawn {
				chunks[p.Constraints] = rapid.Bool().Draw(t, "chunk")
			}
			if p.Planned == "" && chunks[p.Constraints] {
				constraints := *p.Constraints
				p.Constraints, p.Buffer = &constraints, "default/b"
				continue
			}
			pods = append(pods, *p)
		}
		p := pack.Solve(snap, pack.Options{})
		for _, check := range []func(*cluster.Snapshot, *plan.Plan) error{everyPodOnce, nodesHold, launchesHold, limitsHold, neighboursHold} {
			if err := check(snap, &p); err != nil {
				t.Fatalf("%v\n%s\n%s", err, text, story.Print(&p))
			}
		}
		without := *snap
		without.Pending = pods
		q := pack.Solve(&without, pack.Options{})
		if refused(&without, &p) > refused(&without, &q) {
			t.Fatalf("with chunks, pods are refused that have a place without them\n%s\n%s\nwithout\n%s", text, story.Print(&p), story.Print(&q))
		}
	})
}

// refused counts the pods of a snapshot that a plan refuses.
func refused(snap *cluster.Snapshot, p *plan.Plan) (n int) {
	for _, r := range p.Refusals {
		if constraintsOf(snap, r.Pod.Name) != nil {
			n++
		}
	}
	return n
}

// TestBadBuffersStopNothing: chunks about which a decision takes too much effort, or panics, are left
// out, and no pod and no other buffer with them.
func TestBadBuffersStopNothing(t *testing.T) {
	t.Parallel()
	const some = `
type small cpu=2 memory=8Gi price=0.10
pool general types=small
pod web cpu=1
buffer good chunks=3 cpu=1
buffer heavy cpu=1 chunks=5`
	snap, err := story.Parse(some)
	if err != nil {
		t.Fatal(err)
	}
	heavy := snap.Buffers[1].Constraints
	for range 3000 {
		heavy.Terms = append(heavy.Terms, heavy.Terms[0])
	}
	p := pack.Decide(snap, pack.Options{Effort: 3_000})
	if got := p.Buffers[0]; got.Launched != 3 || len(p.Refusals) > 0 || len(p.GivenUp) == 0 {
		t.Errorf("the good buffer is %+v, refusals %v, given up %v", got, p.Refusals, p.GivenUp)
	}
	if got := p.Buffers[1]; got.Launched != 0 || !strings.Contains(got.Why.String(), "given up") {
		t.Errorf("the heavy buffer is %+v", got)
	}
}

// TestManyBuffersAreDecidedAbout: to look for other ways to place chunks takes only a part of the effort, lest there be none
// left for the nodes that are launched in the end.
func TestManyBuffersAreDecidedAbout(t *testing.T) {
	t.Parallel()
	text := "type small cpu=2 memory=8Gi price=0.10\npool general types=small\n"
	for i := range 2000 {
		text += fmt.Sprintf("node n%d pool=general type=small empty\n", i)
	}
	for i := range 200 {
		text += fmt.Sprintf("buffer b%d chunks=11 cpu=%dm app=x%d apart=host:x%d\n", i, 1500+i, i%50, i%50)
	}
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := pack.Decide(snap, pack.Options{})
	held := 0
	for i := range p.Buffers {
		held += p.Buffers[i].HeldCount()
	}
	if held != 2000 || len(p.Launches) != 200 || len(p.GivenUp) > 0 {
		t.Errorf("%d chunks are held, %d nodes are launched, given up for %v; want 2000, 200, nothing", held, len(p.Launches), p.GivenUp)
	}
}
