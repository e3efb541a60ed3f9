package nominate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// waiting returns a node that has been asking and ready for so long.
func waiting(name string, ready time.Duration) Node {
	return Node{Name: name, Stage: Waiting, Asked: ago(ready), ReadyAt: ago(ready)}
}

// opened returns node n1, open for so long.
func opened(since time.Duration) Node {
	return Node{Name: "n1", Stage: Opened, Asked: ago(time.Minute), ReadyAt: ago(time.Minute), OpenedAt: ago(since)}
}

func meant(name, node string) Pod {
	return Pod{PodRef: cluster.PodRef{Namespace: "d", Name: name, UID: name}, Node: node}
}

// hinted returns the pod with a hint to n1.
func (p Pod) hinted(ours bool) Pod {
	p.Hint, p.Ours = "n1", ours
	return p
}

func (p Pod) given(times int, since time.Duration) Pod {
	p.Given, p.GivenAt = times, ago(since)
	return p
}

func (n Node) spare() Node {
	n.Spare = true
	return n
}

const waitMost = 20 * time.Second

func (v View) within(most time.Duration) View {
	v.WaitMost = most
	return v
}

func TestNext(t *testing.T) {
	t.Parallel()
	quiet := ago(time.Second)
	for name, c := range map[string]struct {
		view View
		want string
	}{
		"the pods of a node are hinted just before it opens": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1"), meant("b", "n1")}},
			"hint d/a to n1\nhint d/b to n1\nopen n1\n",
		},
		"while kube-scheduler tries pods nobody is hinted": {
			View{Heard: ago(10 * time.Millisecond), Nodes: []Node{waiting("n1", 100*time.Millisecond)}, Pods: []Pod{meant("a", "n1")}},
			"look again at 12:00:00.070\n",
		},
		"but not for ever": {
			View{Heard: noon, Nodes: []Node{waiting("n1", settleMost)}, Pods: []Pod{meant("a", "n1")}},
			"hint d/a to n1\nopen n1\n",
		},
		"the next node waits until the pods of the last one are bound": {
			View{Heard: ago(100 * time.Millisecond), Nodes: []Node{opened(500 * time.Millisecond), waiting("n2", time.Second)}, Pods: []Pod{meant("a", "n1").hinted(true), meant("b", "n2")}},
			"look again at 12:00:00.200\n",
		},
		"but not for pods that kube-scheduler leaves alone": {
			View{Heard: ago(quietStuck), Nodes: []Node{opened(500 * time.Millisecond), waiting("n2", time.Second)}, Pods: []Pod{meant("a", "n1").hinted(true), meant("b", "n2")}},
			"hint d/b to n2\nopen n2\n",
		},
		"and goes when they are": {
			View{Heard: quiet, Nodes: []Node{opened(500 * time.Millisecond), waiting("n2", time.Second)}, Pods: []Pod{meant("b", "n2")}},
			"hint d/b to n2\nopen n2\n",
		},
		"a node whose turn does not come opens all the same": {
			View{Heard: noon, Nodes: []Node{opened(0), waiting("n2", waitMost)}, Pods: []Pod{meant("a", "n1").hinted(true), meant("b", "n2")}},
			"hint d/b to n2\nopen n2\n",
		},
		"of two the one without room to spare goes first": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0).spare(), waiting("n2", 0)}, Pods: []Pod{meant("a", "n1"), meant("b", "n2")}},
			"hint d/b to n2\nopen n2\nlook again at 12:00:20.000\n",
		},
		"the first one waits a little for others that are coming": {
			View{Heard: quiet, Coming: 1, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1")}},
			"look again at 12:00:00.150\n",
		},
		"but not long when they keep coming": {
			View{Heard: quiet, Coming: 1, Nodes: []Node{waiting("n1", gatherMost), waiting("n2", 0)}, Pods: []Pod{meant("a", "n1"), meant("b", "n2")}},
			"hint d/a to n1\nopen n1\nlook again at 12:00:20.000\n",
		},
		"a node that is not ready is held for a moment": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Waiting, Asked: ago(time.Second)}}, Pods: []Pod{meant("a", "n1")}},
			"look again at 12:00:01.000\n",
		},
		"and then opened, since a pod may be what it lacks": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Waiting, Asked: ago(readyMost)}}, Pods: []Pod{meant("a", "n1")}},
			"hint d/a to n1\nopen n1\n",
		},
		"a node that nothing is meant for opens once we would have heard of its pods": {
			View{Heard: noon, Nodes: []Node{waiting("n1", gatherQuiet), waiting("n2", 0)}},
			"open n1\nlook again at 12:00:00.150\n",
		},
		"a hint that was taken away is given again": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1").given(1, 0)}},
			"hint d/a to n1\n",
		},
		"more slowly when it keeps going": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1").given(givenFast, 400*time.Millisecond)}},
			"look again at 12:00:00.600\n",
		},
		"and in the end not any more": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1").given(givenMost, time.Hour)}},
			"nothing\n",
		},
		"no hint to a node that has not asked": {
			View{Nodes: []Node{{Name: "n1", Stage: Closed}}, Pods: []Pod{meant("a", "n1")}},
			"nothing\n",
		},
		"a hint moves with the plan": {
			View{Nodes: []Node{{Name: "n2"}}, Pods: []Pod{meant("a", "n2").hinted(true)}},
			"hint d/a to n2\n",
		},
		"and is cleared when the new machine has not come yet": {
			View{Pods: []Pod{meant("a", "").hinted(true)}},
			"clear d/a\n",
		},
		"where kube-scheduler makes room is its business": {
			View{Nodes: []Node{{Name: "n2"}}, Pods: []Pod{meant("a", "n2").hinted(false)}},
			"nothing\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.view.At = noon
			if diff := cmp.Diff(c.want, Next(c.view.within(waitMost)).String()); diff != "" {
				t.Errorf("Next (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyNodesOpenInFewTurns: each turn costs kube-scheduler a cycle for every pending pod.
func TestManyNodesOpenInFewTurns(t *testing.T) {
	t.Parallel()
	v := View{At: noon}
	for i := range 50 {
		name := "n" + strings.Repeat("i", i)
		v.Nodes = append(v.Nodes, waiting(name, 0))
		for range 10 {
			v.Pods = append(v.Pods, meant("p"+name, name))
		}
	}
	step := Next(v.within(waitMost))
	if len(step.Open) != 7 || len(step.Set) != 70 {
		t.Errorf("%d nodes open and %d pods are hinted, want 7 of 50 nodes", len(step.Open), len(step.Set))
	}
}
