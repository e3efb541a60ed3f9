package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// pods returns pods of a ReplicaSet that were created at an instant.
func pods(created time.Time, names ...string) (out []cluster.ReschedulablePod) {
	for _, name := range names {
		out = append(out, cluster.ReschedulablePod{PodRef: podRef(name), Controller: "ReplicaSet", Created: created, Constraints: &cluster.Constraints{}})
	}
	return out
}

func holds(name string, pods ...cluster.ReschedulablePod) cluster.Node {
	return cluster.Node{Name: name, Claim: name, Pool: "general", Initialized: true, Reschedulable: pods}
}

func launchedFor(n cluster.Node, command string) cluster.Node {
	n.Replaces = command
	return n
}

// begun is a decision that replaces the node old with a launch for web-1 and web-2, and moves web-3 and the bare pod solo
// to the node other.
func begun(at time.Time) *record.Decision {
	before := at.Add(-time.Hour)
	solo := cluster.ReschedulablePod{PodRef: podRef("solo"), Constraints: &cluster.Constraints{}}
	d := seen(at, nil, holds("old", append(pods(before, "web-1", "web-2", "web-3"), solo)...), holds("other", pods(before, "web-0")...), holds("far"))
	d.Disruption.Commands = []plan.Command{{Reason: "Empty"}, {
		ID: "c", Reason: "Drifted", Remove: []plan.Removal{{Node: "old", Claim: "old"}}, Evictions: 4, Launch: []plan.Launch{{Pool: "general", Types: []string{"four"}, Pods: []cluster.PodRef{podRef("web-1"), podRef("web-2")}}},
		Moves: []plan.Assignment{{Pod: podRef("web-3"), Node: "other"}, {Pod: podRef("solo"), Node: "other"}},
	}}
	return d
}

func TestWherePodsOfCommandsWent(t *testing.T) {
	t.Parallel()
	at := story.Now()
	later := func(minutes int) time.Time { return at.Add(time.Duration(minutes) * time.Minute) }
	old, other := pods(at.Add(-time.Hour), "web-1", "web-2", "web-3"), pods(at.Add(-time.Hour), "web-0")
	onNew := func(names ...string) cluster.Node {
		return launchedFor(holds("new", pods(later(1), names...)...), "c")
	}
	undone := seen(later(1), nil, holds("old", old...))
	undone.Disruption.Undos = []plan.Undo{{Command: "c"}}
	for name, c := range map[string]struct {
		then []*record.Decision
		want []LaunchOutcome
	}{
		"all came where planned":             {[]*record.Decision{seen(later(2), nil, onNew("web-a", "web-b"), holds("other", append(pods(later(1), "web-c"), other...)...))}, []LaunchOutcome{{1, 3, 3, later(2)}}},
		"those that were there do not count": {[]*record.Decision{seen(later(2), nil, onNew("web-a", "web-b"), holds("other", other...)), seen(later(3), nil, onNew("web-a", "web-b"), holds("other", other...))}, []LaunchOutcome{{1, 3, 2, later(3)}}},
		"one went far, known when it settled": {[]*record.Decision{
			seen(later(2), nil, onNew("web-a", "web-b"), holds("far", pods(later(1), "web-c")...)), seen(later(3), nil, onNew("web-a", "web-b"), holds("far", pods(later(1), "web-c")...)),
		}, []LaunchOutcome{{1, 3, 2, later(3)}}},
		"others than planned do not count": {[]*record.Decision{
			seen(later(2), nil, onNew("web-a", "api-1", "api-2")), seen(later(3), nil, onNew("web-a", "api-1", "api-2")),
		}, []LaunchOutcome{{1, 3, 1, later(3)}}},
		"more than planned do not count": {[]*record.Decision{seen(later(2), nil, onNew("web-a", "web-b", "web-c", "web-d"))}, []LaunchOutcome{{1, 3, 3, later(2)}}},
		"one waits":                      {[]*record.Decision{seen(later(2), []string{"web-c"}, onNew("web-a", "web-b")), seen(later(9), []string{"web-c"}, onNew("web-a", "web-b"))}, nil},
		"one waits for ever":             {[]*record.Decision{seen(later(2), []string{"web-c"}, onNew("web-a")), seen(later(63), []string{"web-c"}, onNew("web-a"))}, []LaunchOutcome{{1, 3, 1, later(63)}}},
		"one of another owner waits":     {[]*record.Decision{seen(later(2), []string{"api-c"}, onNew("web-a", "web-b", "web-c"))}, []LaunchOutcome{{1, 3, 3, later(2)}}},
		"the node is not gone":           {[]*record.Decision{seen(later(2), nil, holds("old", old...), onNew("web-a", "web-b", "web-c"))}, nil},
		"the node is not gone but elsewhere": {[]*record.Decision{
			seen(later(2), nil, onNew("web-a", "web-b", "web-c"), holds("old", old...)), seen(later(3), nil, onNew("web-a", "web-b", "web-c"), holds("far"), holds("old", old...)),
			seen(later(62), nil, holds("old", old...), onNew("web-a", "web-b", "web-c")),
		}, nil},
		"it was undone":                      {[]*record.Decision{undone, seen(later(2), nil, onNew("web-a", "web-b", "web-c"))}, nil},
		"the node never went, and went late": {[]*record.Decision{seen(later(62), nil, holds("old", old...)), seen(later(70), nil, onNew("web-a", "web-b", "web-c"))}, nil},
	} {
		dir := t.TempDir()
		j, _ := keep(t, Options{Dir: dir, DiskBytes: 1 << 20}, append([]*record.Decision{begun(at)}, c.then...)...)
		if diff := cmp.Diff(c.want, j.kept[0].head.Landed); diff != "" {
			t.Errorf("%s: in memory (-want +got)\n%s", name, diff)
		}
		file, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, file.Decisions[0].Landed); diff != "" {
			t.Errorf("%s: on disk (-want +got)\n%s", name, diff)
		}
		if isEnded := len(j.awaiting.moves) == 0 && j.awaiting.moved == 0; isEnded != (name != "one waits" && name != "the node is not gone") {
			t.Errorf("%s: %d commands with %d pods are watched", name, len(j.awaiting.moves), j.awaiting.moved)
		}
	}
}

func TestCommandsThatAreAwaitedAreBounded(t *testing.T) {
	t.Parallel()
	l := newAwaiting()
	for n := range 3 * awaitedMost {
		d := begun(story.Now())
		d.Disruption.Commands[1].ID = fmt.Sprint(n % (2 * awaitedMost)) // some twice
		l.await(d, ID{Number: int64(n)})
	}
	if len(l.moves) != awaitedMost || l.moved != 3*awaitedMost {
		t.Errorf("%d commands with %d pods are watched", len(l.moves), l.moved)
	}
}
