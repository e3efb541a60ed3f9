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

// launched is a decision that launches nodes for pods, by NodeClaim.
func launched(at time.Time, claims []string, pods ...[]string) *record.Decision {
	d := &record.Decision{Loop: record.Provisioning, Snapshot: &cluster.Snapshot{At: at}, Claims: claims}
	for i := range claims {
		l := plan.Launch{Pool: "general", Types: []string{"four"}, PriceHourly: 0.2}
		for _, name := range pods[i] {
			l.Pods = append(l.Pods, podRef(name))
			d.Snapshot.Pending = append(d.Snapshot.Pending, cluster.Pod{PodRef: podRef(name), Constraints: &cluster.Constraints{}})
		}
		d.Plan.Launches = append(d.Plan.Launches, l)
	}
	return d
}

func podRef(name string) cluster.PodRef {
	return cluster.PodRef{Namespace: "default", Name: name, UID: name}
}

// seen is a decision to do nothing about a cluster.
func seen(at time.Time, pending []string, nodes ...cluster.Node) *record.Decision {
	snap := &cluster.Snapshot{At: at, Nodes: nodes}
	for _, name := range pending {
		snap.Pending = append(snap.Pending, cluster.Pod{PodRef: podRef(name), Constraints: &cluster.Constraints{}})
	}
	return &record.Decision{Loop: record.Disruption, Snapshot: snap}
}

func ready(claim string, pods ...string) cluster.Node {
	n := cluster.Node{Name: "node-" + claim, Claim: claim, Pool: "general", Initialized: true}
	for _, name := range pods {
		n.Reschedulable = append(n.Reschedulable, cluster.ReschedulablePod{PodRef: podRef(name), Constraints: &cluster.Constraints{}})
	}
	return n
}

func starting(claim string) cluster.Node {
	return cluster.Node{Name: claim, Claim: claim, Pool: "general"}
}

func TestWherePodsOfLaunchesWent(t *testing.T) {
	t.Parallel()
	at := story.Now()
	later := func(minutes int) time.Time { return at.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		then []*record.Decision
		want []LaunchOutcome
	}{
		"all are there":             {[]*record.Decision{seen(later(1), nil, ready("a", "p", "q"), ready("b", "r"))}, []LaunchOutcome{{0, 2, 2, later(1)}, {1, 1, 1, later(1)}}},
		"one is on another node":    {[]*record.Decision{seen(later(1), nil, ready("a", "p"), ready("b", "r", "q"))}, []LaunchOutcome{{0, 2, 1, later(1)}, {1, 1, 1, later(1)}}},
		"one waits":                 {[]*record.Decision{seen(later(1), []string{"q"}, ready("a", "p"), starting("b"))}, nil},
		"one that waited has come":  {[]*record.Decision{seen(later(1), []string{"q", "r"}, ready("a", "p"), starting("b")), seen(later(2), []string{"r"}, ready("a", "p", "q"), starting("b"))}, []LaunchOutcome{{0, 2, 2, later(2)}}},
		"one was there and is gone": {[]*record.Decision{seen(later(1), []string{"q"}, ready("a", "p"), starting("b")), seen(later(2), []string{"r"}, ready("a", "q"), starting("b"))}, []LaunchOutcome{{0, 2, 2, later(2)}}},
		"the node is not yet known": {[]*record.Decision{seen(later(1), []string{"p", "q", "r"})}, nil},
		"the node is gone":          {[]*record.Decision{seen(later(1), []string{"p", "q", "r"}, starting("a"), starting("b")), seen(later(2), []string{"p", "q", "r"}, starting("b"))}, []LaunchOutcome{{0, 2, 0, later(2)}}},
		"they wait for ever":        {[]*record.Decision{seen(later(61), []string{"p", "q", "r"}, starting("a"), starting("b"))}, []LaunchOutcome{{0, 2, 0, later(61)}, {1, 1, 0, later(61)}}},
	} {
		dir := t.TempDir()
		j, _ := keep(t, Options{Dir: dir, DiskBytes: 1 << 20}, append([]*record.Decision{launched(at, []string{"a", "b"}, []string{"p", "q"}, []string{"r"})}, c.then...)...)
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
		if n := len(j.awaiting.byClaim); n != 2-len(c.want) {
			t.Errorf("%s: %d launches are watched", name, n)
		}
		if len(c.want) == 2 && len(j.awaiting.pods) > 0 {
			t.Errorf("%s: %d pods are watched for nothing", name, len(j.awaiting.pods))
		}
	}
}

func TestPodsThatAreEvictedAreNotAwaited(t *testing.T) {
	t.Parallel()
	d := launched(story.Now(), []string{"a", "b"}, []string{"p", "q"}, []string{"r"})
	d.Snapshot.Pending[0].Running, d.Snapshot.Pending[2].Running = true, true
	j, _ := keep(t, Options{}, d, seen(story.Now().Add(time.Minute), nil, ready("a", "q"), ready("b")))
	if diff := cmp.Diff([]LaunchOutcome{{0, 1, 1, story.Now().Add(time.Minute)}}, j.kept[0].head.Landed); diff != "" {
		t.Error(diff)
	}
	answers := j.Explain(Subject{Kind: KindClaim, Name: "a"})
	if len(answers) != 1 || answers[0].Says[0].What != "1 of 1 pod where planned" {
		t.Errorf("the NodeClaim is explained by %+v", answers)
	}
}

func TestWhatIsAwaitedIsBounded(t *testing.T) {
	t.Parallel()
	l := newAwaiting()
	for n := range 3 * awaitedMost {
		var pods []string
		for i := range 1 + n%40 {
			pods = append(pods, fmt.Sprintf("p-%d-%d", n, i))
		}
		l.await(launched(story.Now(), []string{fmt.Sprint("c", n)}, pods), ID{Number: int64(n)})
	}
	if len(l.byClaim) > awaitedMost || len(l.pods) > awaitedPodsMost || len(l.byClaim) < 100 {
		t.Errorf("%d launches with %d pods are watched", len(l.byClaim), len(l.pods))
	}
}
