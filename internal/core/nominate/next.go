package nominate

import (
	"cmp"
	"slices"
	"time"
)

const (
	// readyMost is how long a node that is not ready may be kept closed by us. Longer would
	// buy nothing: what makes it ready may be a pod that must get onto it.
	readyMost = 2 * time.Second
	// gatherQuiet is how long the first nodes that are ready wait for others that are coming,
	// and gatherMost how long if they keep coming: which goes first depends on the others.
	gatherQuiet = 150 * time.Millisecond
	gatherMost  = 600 * time.Millisecond
	// quietMin is how long nothing is heard of the pods once kube-scheduler has tried them
	// all, quietStuck the same while pods of open nodes are yet to be bound, and settleMost
	// how long that is waited for.
	quietMin   = 80 * time.Millisecond
	quietStuck = 300 * time.Millisecond
	settleMost = 2 * time.Second
	// One node a turn is best: while two open, a pod of the second can be tried between them
	// and lose its hint. But each turn has every pending pod tried, so there are no more than
	// triesMost allows, though always turnsLeast.
	triesMost  = 3000
	turnsLeast = 8
	// givenFast is how often a pod is hinted to one node as soon as the hint is gone; then
	// every givenPause, and never more than givenMost times: the pod does not fit there.
	givenFast  = 4
	givenPause = time.Second
	givenMost  = 30
)

// Next returns what to do now.
func Next(v View) Step {
	l := look{View: v, nodes: map[string]*Node{}, pods: map[string]int{}, opening: map[string]bool{}}
	for i := range v.Nodes {
		l.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for i := range v.Pods {
		l.pods[v.Pods[i].Node]++
	}
	l.open()
	for i := range v.Pods {
		l.hint(&v.Pods[i])
	}
	return l.step
}

// look is one look in the making.
type look struct {
	View
	nodes   map[string]*Node
	pods    map[string]int // yet to be bound, by the node that they are meant for
	opening map[string]bool
	step    Step
}

// open chooses the nodes whose turn it is.
func (l *look) open() {
	var ready []*Node
	for i := range l.Nodes {
		n := &l.Nodes[i]
		switch {
		case n.Stage != Waiting:
		case n.ReadyAt.IsZero():
			l.openAt(n, n.Asked.Add(readyMost))
		case l.pods[n.Name] == 0: // perhaps we have yet to hear which are meant for it
			l.openAt(n, n.ReadyAt.Add(gatherQuiet))
		default:
			ready = append(ready, n)
		}
	}
	if len(ready) == 0 {
		return
	}
	// A node with room to spare goes last: pods whose nodes are closed would take it.
	slices.SortStableFunc(ready, func(a, b *Node) int { return cmp.Compare(rank(a), rank(b)) })
	turns := max(turnsLeast, triesMost/len(l.Pods))
	turn, size := l.turn(ready), (len(ready)+turns-1)/turns
	for i, n := range ready {
		most := n.ReadyAt.Add(l.WaitMost)
		if i < size {
			most = earliest(most, turn)
		}
		l.openAt(n, most)
	}
}

func rank(n *Node) int {
	if n.Spare {
		return 1
	}
	return 0
}

// openAt opens the node if it is time.
func (l *look) openAt(n *Node, turn time.Time) {
	if turn.After(l.At) {
		l.until(turn)
		return
	}
	l.opening[n.Name] = true
	l.step.Open = append(l.step.Open, n.Name)
}

// turn returns when the first of the nodes that are ready may open: when kube-scheduler
// has digested those before them, which is when their pods are bound and it no longer
// tries others in vain.
func (l *look) turn(ready []*Node) time.Time {
	var opened, last time.Time
	first, filling := ready[0].ReadyAt, false
	for _, n := range ready {
		first, last = earliest(first, n.ReadyAt), latest(last, n.ReadyAt)
	}
	coming := l.Coming > 0
	for i := range l.Nodes {
		n := &l.Nodes[i]
		switch {
		case n.Stage == Opened:
			opened = latest(opened, n.OpenedAt)
			filling = filling || l.pods[n.Name] > 0 && !n.ReadyAt.IsZero()
		case n.Stage == Closed, n.Stage == Waiting && n.ReadyAt.IsZero():
			coming = true
		}
	}
	quiet := quietMin
	if filling {
		quiet = quietStuck
	}
	settled := earliest(latest(opened, first).Add(settleMost), latest(opened, l.Heard).Add(quiet))
	if coming && opened.IsZero() {
		settled = latest(settled, earliest(last.Add(gatherQuiet), first.Add(gatherMost)))
	}
	return settled
}

// earliest returns the first of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// latest returns the last of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// hint gives the pod the hint that it should have.
func (l *look) hint(p *Pod) {
	n := l.nodes[p.Node]
	open := n != nil && (n.Stage == Open || n.Stage == Opened || l.opening[n.Name])
	switch {
	case p.Hint == p.Node, p.Hint != "" && !p.Ours:
		return
	case !open:
		if p.Hint != "" {
			l.step.Clear = append(l.step.Clear, *p)
		}
		return
	case p.Given >= givenMost:
		return
	}
	due := l.At
	if p.Given >= givenFast {
		due = p.GivenAt.Add(givenPause)
	}
	if due.After(l.At) {
		l.until(due)
		return
	}
	l.step.Set = append(l.step.Set, *p)
}

func (l *look) until(t time.Time) {
	if l.step.Until.IsZero() || t.Before(l.step.Until) {
		l.step.Until = t
	}
}
