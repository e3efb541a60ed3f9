package nominate

import (
	"time"
)

const (
	// readyMost is how long a node that is not ready may be kept closed by us. Longer would
	// buy nothing: what makes it ready may be a pod that must get onto it.
	readyMost = 2 * time.Second
	// settleMost is how long the next nodes wait for the pods of those just opened.
	settleMost = 500 * time.Millisecond
	// turnMost is how long a node may wait for its turn in all.
	turnMost = 10 * time.Second
	// givenFast is how often a pod is hinted to one node as soon as the hint is gone; then
	// every givenPause, and never more than givenMost times: the pod does not fit there.
	givenFast  = 4
	givenPause = time.Second
	givenMost  = 30
)

// Next returns what to do now.
func Next(v View) Step {
	l := look{View: v, nodes: map[string]*Node{}, unbound: map[string]int{}}
	for i := range v.Nodes {
		l.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for i := range v.Pods {
		l.unbound[v.Pods[i].Node]++
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
	unbound map[string]int // pods yet to be bound, by the node they are meant for
	opening map[string]bool
	step    Step
}

// open chooses the nodes whose turn it is: all that are ready, unless those before them
// are still being filled.
func (l *look) open() {
	l.opening = map[string]bool{}
	settled := l.settled()
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.Stage != Waiting {
			continue
		}
		turn := settled
		switch {
		case l.unbound[n.Name] == 0:
			turn = l.At
		case !n.Ready:
			turn = n.Since.Add(readyMost)
		}
		if most := n.Since.Add(turnMost); turn.After(most) {
			turn = most
		}
		if turn.After(l.At) {
			l.until(turn)
			continue
		}
		l.opening[n.Name] = true
		l.step.Open = append(l.step.Open, n.Name)
	}
}

// settled returns when the nodes opened before need no more attention; zero: now.
func (l *look) settled() time.Time {
	var last time.Time
	for i := range l.Nodes {
		n := &l.Nodes[i]
		end := n.Since.Add(settleMost)
		if n.Stage == Opened && n.Ready && l.unbound[n.Name] > 0 && end.After(l.At) && end.After(last) {
			last = end
		}
	}
	return last
}

// hint gives the pod the hint that it should have.
func (l *look) hint(p *Pod) {
	n := l.nodes[p.Node]
	open := n != nil && (n.Stage != Waiting || l.opening[n.Name])
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
