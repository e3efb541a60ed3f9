package nominate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
)

// model is as much of kube-scheduler as matters here: one pod is tried at a time, in the
// order of its queue; opening a node wakes all pods; a pod tried in vain loses its nomination;
// a pod without one takes any room that no nomination keeps.
type model struct {
	random    *rand.Rand
	at        time.Time
	view      View
	room      map[string]int       // left on a node
	open      map[string]bool      // to pods
	queue     map[string]bool      // pods that are awake
	opens     map[string]time.Time // nodes on their way to be open
	written   map[string]time.Time // pods whose nomination kube-scheduler does not know yet
	asPlanned int
}

// tick is how long one try takes.
const tick = 4 * time.Millisecond

// nominationTicks is how many pods may be tried until a nomination is known to kube-scheduler.
const nominationTicks = 15

func newModel(seed uint64) (m *model, pods int) {
	m = &model{
		random: rand.New(rand.NewPCG(seed, 0)), at: noon,
		room: map[string]int{}, open: map[string]bool{}, queue: map[string]bool{}, opens: map[string]time.Time{}, written: map[string]time.Time{},
	}
	for n := range 2 + m.random.IntN(60) {
		name := fmt.Sprintf("n%02d", n)
		each := 1 + m.random.IntN(8)
		m.room[name] = each
		m.view.Nodes = append(m.view.Nodes, Node{Name: name, Stage: Waiting, Asked: noon, ReadyAt: noon})
		for range each {
			ref := cluster.PodRef{Namespace: "ns", Name: fmt.Sprintf("p%04d", pods)}
			p := Pod{PodRef: ref, Node: name, Tries: 1, TriedAt: noon.Add(-time.Duration(m.random.IntN(4000)) * time.Millisecond)}
			m.view.Pods = append(m.view.Pods, p)
			pods++
		}
	}
	m.view.LastPodEvent, m.view.WaitMost = noon.Add(-time.Second), time.Hour
	return m, pods
}

// step has a decision made, does what it says, and has one pod tried.
func (m *model) step() {
	m.view.At = m.at
	step := Next(m.view)
	for _, set := range step.Set {
		i := slices.IndexFunc(m.view.Pods, func(p Pod) bool { return p.Name == set.Name })
		p := &m.view.Pods[i]
		p.Nominated, p.Ours, p.Given, p.GivenAt = p.Node, true, p.Given+1, m.at
		m.written[p.Name] = m.at.Add(time.Duration(m.random.IntN(nominationTicks)) * tick)
	}
	for i := range m.view.Pods {
		p := &m.view.Pods[i]
		if due, ok := m.written[p.Name]; ok && !due.After(m.at) {
			delete(m.written, p.Name)
			p.Stands = true
		}
	}
	for _, name := range step.Open {
		m.node(name).Stage = Opening
		m.opens[name] = m.at.Add(time.Duration(m.random.IntN(len(step.Open)+1)) * tick)
	}
	for name, due := range m.opens {
		if !due.After(m.at) {
			delete(m.opens, name) // in any order: none of them matters to another
			m.open[name], m.node(name).Stage = true, Open
			for i := range m.view.Pods {
				m.queue[m.view.Pods[i].Name] = true
			}
		}
	}
	m.try()
	m.at = m.at.Add(tick)
}

func (m *model) node(name string) *Node {
	return &m.view.Nodes[slices.IndexFunc(m.view.Nodes, func(n Node) bool { return n.Name == name })]
}

// try tries the pod that is next in the queue.
func (m *model) try() {
	next := -1
	for i := range m.view.Pods {
		p := &m.view.Pods[i]
		if m.queue[p.Name] && (next < 0 || p.TriedAt.Before(m.view.Pods[next].TriedAt)) {
			next = i
		}
	}
	if next < 0 {
		return
	}
	p := &m.view.Pods[next]
	delete(m.queue, p.Name)
	delete(m.written, p.Name)
	m.view.LastPodEvent = m.at
	to := ""
	for i := range m.view.Nodes {
		name := m.view.Nodes[i].Name
		if m.open[name] && m.room[name] > m.kept(name, p) && (to == "" || p.Stands && p.Nominated == name) {
			to = name
		}
	}
	if to == "" {
		p.Nominated, p.Stands, p.Tries, p.TriedAt = "", false, p.Tries+1, m.at
		return
	}
	if to == p.Node {
		m.asPlanned++
	}
	m.room[to]--
	m.view.Pods = slices.Delete(m.view.Pods, next, next+1)
}

// kept returns how much of a node's room nominations keep from a pod.
func (m *model) kept(node string, from *Pod) int {
	kept := 0
	for i := range m.view.Pods {
		if p := &m.view.Pods[i]; p.Name != from.Name && p.Stands && p.Nominated == node {
			kept++
		}
	}
	return kept
}

// TestPodsOfAModelAreBoundAsPlanned has random plans without any room to spare handed to a
// model of kube-scheduler. All pods are bound, in little more time than the tries take that
// cannot be avoided, and hardly one elsewhere than on its target node.
func TestPodsOfAModelAreBoundAsPlanned(t *testing.T) {
	t.Parallel()
	all, there := 0, 0
	for seed := range uint64(200) {
		m, pods := newModel(seed)
		steps := 0
		for ; len(m.view.Pods) > 0; steps++ {
			if steps > 20*pods+1000 {
				t.Fatalf("seed %d: after %d steps %d of %d pods are not bound", seed, steps, len(m.view.Pods), pods)
			}
			m.step()
		}
		all, there = all+pods, there+m.asPlanned
	}
	t.Logf("%d of %d pods are bound as planned", there, all)
	if there*1000 < all*999 {
		t.Errorf("%d of %d pods are bound as planned, want 99.9 %%", there, all)
	}
}
