package nominate

import (
	"time"
)

const (
	// readyMost is how long a node that is not ready may be kept closed by us. Longer would
	// buy nothing: what makes it ready may be a pod that must get onto it.
	readyMost = 2 * time.Second
	// gatherQuiet is how long a node that is ready waits for others that are coming, and
	// gatherMost how long if they keep coming. Each opening costs kube-scheduler a cycle
	// for every pending pod, so it pays to have few.
	gatherQuiet = 150 * time.Millisecond
	gatherMost  = 600 * time.Millisecond
	// settleMost is how long the next nodes wait for the pods of those just opened.
	settleMost = time.Second
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

// open chooses the nodes whose turn it is.
func (l *look) open() {
	l.opening = map[string]bool{}
	group := latest(l.gathered(), l.settled())
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.Stage != Waiting {
			continue
		}
		turn := group
		switch {
		case n.ReadyAt.IsZero():
			turn = n.Asked.Add(readyMost)
		case l.unbound[n.Name] == 0:
			turn = n.ReadyAt.Add(gatherQuiet) // perhaps we have yet to hear which are meant for it
		case turn.After(n.Asked.Add(turnMost)):
			turn = n.Asked.Add(turnMost)
		}
		if turn.After(l.At) {
			l.until(turn)
			continue
		}
		l.opening[n.Name] = true
		l.step.Open = append(l.step.Open, n.Name)
	}
}

// gathered returns when all nodes that are ready may open: at once if no others are on
// their way.
func (l *look) gathered() time.Time {
	coming := l.Coming > 0
	var first, last time.Time
	for i := range l.Nodes {
		n := &l.Nodes[i]
		switch {
		case n.Stage == Closed:
			coming = true
		case n.Stage != Waiting || l.unbound[n.Name] == 0:
		case n.ReadyAt.IsZero():
			coming = true
		default:
			last = latest(last, n.ReadyAt)
			if first.IsZero() || n.ReadyAt.Before(first) {
				first = n.ReadyAt
			}
		}
	}
	end, most := last.Add(gatherQuiet), first.Add(gatherMost)
	switch {
	case !coming:
		return time.Time{}
	case end.After(most):
		return most
	default:
		return end
	}
}

// settled returns when the nodes opened before need no more attention: when their pods
// are bound, or settleMost has passed.
func (l *look) settled() time.Time {
	var last time.Time
	for i := range l.Nodes {
		n := &l.Nodes[i]
		if n.Stage == Opened && !n.ReadyAt.IsZero() && l.unbound[n.Name] > 0 {
			last = latest(last, n.OpenedAt.Add(settleMost))
		}
	}
	return last
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
