package nominate

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// waiting returns a node that has been asking and ready for so long.
func waiting(name string, ready time.Duration) Node {
	return Node{Name: name, Stage: Waiting, Asked: ago(ready), ReadyAt: ago(ready)}
}

func (n Node) spare() Node {
	n.Spare = true
	return n
}

// meant returns a pod that is tried sooner the longer ago it was tried.
func meant(name, node string, tried time.Duration) Pod {
	return Pod{PodRef: cluster.PodRef{Namespace: "d", Name: name, UID: name}, Node: node, Tries: 1, TriedAt: ago(tried)}
}

// hinted returns the pod with a hint to n1.
func (p Pod) hinted(ours bool) Pod {
	p.Hint, p.Ours, p.Stands = "n1", ours, p.Node == "n1"
	return p
}

// unseen returns the pod with a hint that was written and not seen yet.
func (p Pod) unseen() Pod {
	p.Hint, p.Ours = p.Node, true
	return p
}

func (p Pod) given(times int, since time.Duration) Pod {
	p.Given, p.GivenAt = times, ago(since)
	return p
}

// of returns the pod as one of the shape.
func (p Pod) of(shape *cluster.Shape) Pod {
	p.Shape = shape
	return p
}

// spreadShape returns the shape of an app's pods that are spread over zones.
func spreadShape(app string, maxSkew int32) *cluster.Shape {
	selector := cluster.Selector{Some: true, Requirements: label.OfLabels(map[string]string{"app": app})}
	return &cluster.Shape{
		Namespace: "d", Labels: map[string]string{"app": app},
		Rules: cluster.Rules{Spread: []cluster.Spread{{Key: label.Zone, MaxSkew: maxSkew, Selector: selector}}},
	}
}

// heavyShape returns the shape of a pod that is spread more often than any pod that people write.
func heavyShape() *cluster.Shape {
	shape := spreadShape("heavy", 1)
	for len(shape.Spread) <= weightMost/2 {
		shape.Spread = append(shape.Spread, shape.Spread[0])
	}
	return shape
}

const waitMost = 20 * time.Second

func TestNext(t *testing.T) {
	t.Parallel()
	quiet, busy := ago(time.Second), noon
	web, db := spreadShape("web", 1), spreadShape("db", 2)
	queue := func(more ...Pod) []Pod { // before more, of nodes that are open
		pods := make([]Pod, 0, 20)
		for i := range 20 {
			pods = append(pods, meant(fmt.Sprintf("ahead-%02d", i), "open", time.Hour))
		}
		for i := range pods {
			pods[i].Hint, pods[i].Stands = "open", true
		}
		return append(pods, more...)
	}
	for name, c := range map[string]struct {
		view View
		want string
	}{
		"first the pods of a node are hinted": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 9), meant("b", "n1", 8)}},
			"hint d/a to n1\nhint d/b to n1\nlook again at 12:00:20.000\n",
		},
		"it opens when the hints are seen to stand": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 9).hinted(true), meant("b", "n1", 8).unseen()}},
			"look again at 12:00:20.000\n",
		},
		"and not before": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 9).hinted(true), meant("b", "n1", 8).hinted(true)}},
			"open n1\nlook again at 12:00:20.000\n",
		},
		"but not for ever": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", waitMost)}, Pods: []Pod{meant("a", "n1", 9)}},
			"hint d/a to n1\nopen n1\n",
		},
		"of two nodes the one goes first whose pods are tried last": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0), waiting("n2", 0)}, Pods: []Pod{meant("a", "n1", time.Hour), meant("b", "n2", 0)}},
			"hint d/b to n2\nlook again at 12:00:20.000\n",
		},
		"of two pods the one is tried last that must pause": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0), waiting("n2", 0)}, Pods: []Pod{{PodRef: cluster.PodRef{Namespace: "d", Name: "a"}, Node: "n1", Tries: 4, TriedAt: ago(2 * time.Second)}, meant("b", "n2", 2*time.Second)}},
			"hint d/a to n1\nlook again at 12:00:20.000\n",
		},
		"or that has the lower priority": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0), waiting("n2", 0)}, Pods: []Pod{meant("a", "n1", time.Hour), {PodRef: cluster.PodRef{Namespace: "d", Name: "b"}, Node: "n2", Priority: 1}}},
			"hint d/a to n1\nlook again at 12:00:20.000\n",
		},
		"while a node opens another one waits whose pod could be tried": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Opening}, waiting("n2", 0)}, Pods: []Pod{meant("a", "n1", 0).hinted(true), meant("b", "n2", 0)}},
			"look again at 12:00:20.000\n",
		},
		"and one does not that has its pods far behind": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Opening}, {Name: "open"}, waiting("n2", 0)}, Pods: queue(meant("b", "n2", 0))},
			"hint d/b to n2\nlook again at 12:00:20.000\n",
		},
		"while kube-scheduler tries pods nothing opens that it may try next": {
			View{Heard: busy, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 0)}},
			"look again at 12:00:00.080\n",
		},
		"but what it tries later does": {
			View{Heard: busy, Nodes: []Node{waiting("n1", 0), {Name: "open"}}, Pods: queue(meant("a", "n1", 0).hinted(true))},
			"open n1\nlook again at 12:00:00.080\n",
		},
		"a node with room to spare waits for those without": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0).spare(), waiting("n2", 0)}, Pods: []Pod{meant("a", "n1", 0), meant("b", "n2", time.Hour)}},
			"hint d/b to n2\nlook again at 12:00:01.000\n",
		},
		"and for those that are coming": {
			View{Heard: quiet, Coming: 1, Nodes: []Node{waiting("n1", 0).spare()}, Pods: []Pod{meant("a", "n1", 0)}},
			"look again at 12:00:01.000\n",
		},
		"but not long": {
			View{Heard: quiet, Coming: 1, Nodes: []Node{waiting("n1", spareMost).spare()}, Pods: []Pod{meant("a", "n1", 0)}},
			"hint d/a to n1\nlook again at 12:00:19.000\n",
		},
		"a node that is not ready is held for a moment": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Waiting, Asked: ago(readyMost - time.Second)}}, Pods: []Pod{meant("a", "n1", 0)}},
			"look again at 12:00:01.000\n",
		},
		"and then opened, since a pod may be what it lacks": {
			View{Heard: quiet, Nodes: []Node{{Name: "n1", Stage: Waiting, Asked: ago(readyMost)}}, Pods: []Pod{meant("a", "n1", 0)}},
			"hint d/a to n1\nopen n1\n",
		},
		"a node that nothing is meant for opens once we would have heard of its pods": {
			View{Heard: busy, Nodes: []Node{waiting("n1", meantSoon), waiting("n2", 0)}},
			"open n1\nlook again at 12:00:00.150\n",
		},
		"a hint that was taken away is given again": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1", 0).given(1, 0)}},
			"hint d/a to n1\n",
		},
		"more slowly when it keeps going": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1", 0).given(givenFast, 400*time.Millisecond)}},
			"look again at 12:00:00.600\n",
		},
		"and in the end not any more": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("a", "n1", 0).given(givenMost, time.Hour)}},
			"nothing\n",
		},
		"which does not keep a node closed": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 0).given(givenMost, time.Hour)}},
			"open n1\nlook again at 12:00:20.000\n",
		},
		"no hint to a node that has not asked": {
			View{Nodes: []Node{{Name: "n1", Stage: Closed}}, Pods: []Pod{meant("a", "n1", 0)}},
			"nothing\n",
		},
		"a hint moves with the plan": {
			View{Nodes: []Node{{Name: "n2"}}, Pods: []Pod{meant("a", "n2", 0).hinted(true)}},
			"hint d/a to n2\n",
		},
		"and is cleared when the new node has not come yet": {
			View{Pods: []Pod{meant("a", "", 0).hinted(true)}},
			"clear d/a\n",
		},
		"where kube-scheduler makes room is its business": {
			View{Nodes: []Node{{Name: "n2"}}, Pods: []Pod{meant("a", "n2", 0).hinted(false)}},
			"nothing\n",
		},
		"of pods that are spread a node has no more hinted than the skew allows": {
			View{Nodes: []Node{{Name: "n1"}, {Name: "n2"}}, Pods: []Pod{
				meant("a", "n1", 0).of(web), meant("b", "n1", 0).of(web), meant("c", "n2", 0).of(web),
				meant("d", "n1", 0).of(db), meant("e", "n1", 0).of(db), meant("f", "n1", 0).of(db),
			}},
			"hint d/a to n1\nhint d/c to n2\nhint d/d to n1\nhint d/e to n1\n",
		},
		"the next one is when the one before is bound": {
			View{Nodes: []Node{{Name: "n1"}}, Pods: []Pod{meant("b", "n1", 0).of(web)}},
			"hint d/b to n1\n",
		},
		"one that is not hinted for that keeps no node closed": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 0).of(web).hinted(true), meant("b", "n1", 0).of(web)}},
			"open n1\nlook again at 12:00:20.000\n",
		},
		"a pod with very many rules is not hinted, and keeps no node closed": {
			View{Heard: quiet, Nodes: []Node{waiting("n1", 0)}, Pods: []Pod{meant("a", "n1", 0).of(heavyShape()), meant("b", "n1", 0).of(web).hinted(true)}},
			"open n1\nlook again at 12:00:20.000\n",
		},
		"and a hint of before goes": {
			View{Nodes: []Node{{Name: "n1"}, {Name: "n2"}}, Pods: []Pod{meant("a", "n2", 0).of(web).hinted(true), {PodRef: cluster.PodRef{Namespace: "d", Name: "b"}, Node: "n2", Hint: "n2", Stands: true, Shape: web}}},
			"clear d/a\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.view.At, c.view.WaitMost = noon, waitMost
			if diff := cmp.Diff(c.want, Next(c.view).String()); diff != "" {
				t.Errorf("Next (-want +got):\n%s", diff)
			}
		})
	}
}
