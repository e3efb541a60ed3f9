package disrupt_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// searched returns the memory of a search that found nothing some time ago.
func searched(snap *cluster.Snapshot, ago time.Duration) disrupt.Memory {
	return disrupt.Memory{ConclusiveAt: snap.At.Add(-ago), CheckedAt: snap.At.Add(-ago), ConclusiveFor: time.Hour}
}

// TestANodeIsSearchedAgainAfterItsPodsCooldown: the cooldown of a pod excluded its node when all
// nodes were searched. When the cooldown is over, the node counts as changed.
func TestANodeIsSearchedAgainAfterItsPodsCooldown(t *testing.T) {
	t.Parallel()
	snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20
type one cpu=1.5 memory=4Gi price=0.05
pool general
node a pool=general type=four last-pod-event=2h
running web on=a cpu=1 moved=25m moves=2
`)
	if err != nil {
		t.Fatal(err)
	}
	for settled, want := range map[time.Duration]int{6 * time.Minute: 1, 4 * time.Minute: 0} { // it rested until 5 minutes ago
		if p, _ := disrupt.Propose(snap, searched(snap, settled), disrupt.Options{}); len(p.Commands) != want {
			t.Errorf("nothing was found %s ago: %d steps now, want %d: %s", settled, len(p.Commands), want, story.PrintDisruption(&p))
		}
	}
}

// TestNothingIsSearchedUntilSomethingIsOver: since everything was looked at, nothing has happened to
// any node that is not still going on. Here it was looked at 5 minutes ago.
func TestNothingIsSearchedUntilSomethingIsOver(t *testing.T) {
	t.Parallel()
	for idle, want := range map[string]int{"2h": 0, "6m": 0, "5m30s": 1, "2m": 1, "30s": 0} { // pool asks for a minute of it
		snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20
pool general after=1m
node a pool=general type=four last-pod-event=2h
node b pool=general type=four last-pod-event=` + idle + `
running web on=a cpu=1
running api on=b cpu=2
`)
		if err != nil {
			t.Fatal(err)
		}
		if p, _ := disrupt.Propose(snap, searched(snap, 5*time.Minute), disrupt.Options{}); len(p.Commands) != want {
			t.Errorf("a pod left b %s ago: %d steps, want %d: %s", idle, len(p.Commands), want, story.PrintDisruption(&p))
		}
	}
}

// TestANodeThatMayGoNowIsLookedAt: nothing has happened to it since everything was looked at 5
// minutes ago, but then it might not go. It can be emptied, or another one bought for its pod.
func TestANodeThatMayGoNowIsLookedAt(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"node b pool=general type=four last-pod-event=2h\nrunning api on=b cpu=2", ""} {
		snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20
type one cpu=1.5 memory=4Gi price=0.05
pool general
node a pool=general type=four last-pod-event=2h
running web on=a cpu=1
` + other)
		if err != nil {
			t.Fatal(err)
		}
		memory := searched(snap, 5*time.Minute)
		if p, next := disrupt.Propose(snap, memory, disrupt.Options{}); len(p.Commands) != 0 || len(next.Excluded) != 0 {
			t.Errorf("it might go then: %d steps, excluded %v: %s", len(p.Commands), next.Excluded, story.PrintDisruption(&p))
		}
		held := *snap
		held.Nodes = slices.Clone(snap.Nodes)
		held.Nodes[0].DoNotDisrupt = "annotation"
		_, next := disrupt.Propose(&held, memory, disrupt.Options{})
		memory.Excluded = next.Excluded
		if p, next := disrupt.Propose(&held, memory, disrupt.Options{}); len(p.Commands) != 0 || !slices.Equal(next.Excluded, []string{"a"}) {
			t.Errorf("it may not go: %d steps, excluded %v: %s", len(p.Commands), next.Excluded, story.PrintDisruption(&p))
		}
		if p, _ := disrupt.Propose(snap, memory, disrupt.Options{}); len(p.Commands) != 1 {
			t.Errorf("it may go now: %d steps: %s", len(p.Commands), story.PrintDisruption(&p))
		}
	}
}
