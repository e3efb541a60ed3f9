package pack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// parsed returns the cluster of a story some time later.
func parsed(t interface{ Fatalf(string, ...any) }, text string, later time.Duration) *cluster.Snapshot {
	snap, err := story.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	snap.At = snap.At.Add(later)
	return snap
}

// TestRecentDecidesAsDecide looks at clusters again and again. Some have changed meanwhile.
func TestRecentDecidesAsDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := []string{story.Any(t), story.Any(t)}
		var recent pack.Recent
		later := time.Duration(0)
		for range rapid.IntRange(2, 8).Draw(t, "looks") {
			later += time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second
			text := rapid.SampledFrom(texts).Draw(t, "cluster")
			snap := parsed(t, text, later)
			if n := rapid.IntRange(-3, len(snap.Pending)).Draw(t, "pods gone"); n > 0 {
				snap.Pending = snap.Pending[n:]
			}
			if n := rapid.IntRange(-3, len(snap.Nodes)).Draw(t, "nodes gone"); n > 0 {
				snap.Nodes = snap.Nodes[n:]
			}
			got, want := recent.Decide(snap, pack.Options{}), pack.Decide(snap, pack.Options{})
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Fatalf("plan\n%s\nwant\n%s", story.Print(&got), story.Print(&want))
			}
		}
	})
}

// TestRecentMindsTheTime: some answers change though the cluster does not.
func TestRecentMindsTheTime(t *testing.T) {
	t.Parallel()
	gangs := &strings.Builder{}
	gangs.WriteString("type small cpu=4 memory=8Gi price=0.1\npool general types=small limit.cpu=8\n")
	for i := range 9 {
		fmt.Fprintf(gangs, "gang g%d minimum=3 age=%dh\npod g%d-a cpu=3 gang=g%d\npod g%d-b cpu=3 gang=g%d\npod g%d-c cpu=3 gang=g%d\n", i, i+1, i, i, i, i, i, i)
	}
	for name, text := range map[string]string{
		"a buffer that waits": "type small cpu=4 memory=8Gi price=0.1\npool general types=small\nbuffer web chunks=1 cpu=2 wait=5s\n",
		"many gangs":          gangs.String(),
	} {
		var recent pack.Recent
		for minute := range 12 {
			snap := parsed(t, text, time.Duration(minute)*time.Minute)
			got, want := recent.Decide(snap, pack.Options{}), pack.Decide(snap, pack.Options{})
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Fatalf("%s, minute %d: plan\n%s\nwant\n%s", name, minute, story.Print(&got), story.Print(&want))
			}
		}
	}
}

// TestRecentDecidesOnce: what is known costs a hundredth of the memory of a decision at most.
func TestRecentDecidesOnce(t *testing.T) {
	snap := manyPods(t, "rules", 1000)
	for i := range snap.Pools {
		snap.Pools[i].Limits = quantity.List{quantity.CPU: 0}
	}
	var recent pack.Recent
	recent.Decide(snap, pack.Options{})
	later := *snap
	later.At = later.At.Add(time.Minute)
	again := testing.AllocsPerRun(1, func() { recent.Decide(&later, pack.Options{}) })
	anew := testing.AllocsPerRun(1, func() { pack.Decide(&later, pack.Options{}) })
	if again > anew/100 {
		t.Errorf("%.0f allocations, and %.0f to decide anew", again, anew)
	}
}
