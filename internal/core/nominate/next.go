package nominate

import "time"

const (
	// readyMost is how long a node that is not ready may be kept closed by us. Longer would
	// buy nothing: what makes it ready may be a pod that must get onto it.
	readyMost = 10 * time.Second
	// meantSoon is how long a node that nothing is meant for stays closed: perhaps we have
	// yet to hear what is.
	meantSoon = 150 * time.Millisecond
	// givenFast is how often a pod is hinted to one node as soon as the hint is gone; then
	// every givenPause, and never more than givenMost times: the pod does not fit there.
	givenFast  = 10
	givenPause = time.Second
	givenMost  = 30
	// weightMost is the most that a pod weighs (cluster.Shape.Weight) that is hinted. What a heavier
	// pod asks is held against every pod hinted to its node each time; kube-scheduler finds a node
	// for it without a hint. Ordinary pods weigh less than 24.
	weightMost = 200
)

// Next returns what to do now.
func Next(v View) Step {
	l := look{View: v, nodes: map[string]*Node{}, pods: map[string]int{}, turns: map[string]bool{}, lacking: map[string]int{}}
	for i := range v.Nodes {
		l.nodes[v.Nodes[i].Name] = &v.Nodes[i]
	}
	for i := range v.Pods {
		l.pods[v.Pods[i].Node]++
	}
	l.countHints()
	batch := l.choose()
	for i := range v.Pods {
		l.hint(&v.Pods[i])
	}
	l.open(batch)
	return l.step
}

// look is one look in the making.
type look struct {
	View
	nodes   map[string]*Node
	pods    map[string]int  // yet to be bound, by the node that they are meant for
	turns   map[string]bool // nodes whose turn it is
	lacking map[string]int  // pods whose hint has yet to be seen, by node
	hinted  hinted
	step    Step
}

// choose opens the nodes that have waited long enough and returns those whose turn it is
// besides: they open when the hints of their pods stand.
func (l *look) choose() []*Node {
	var ready []*Node
	for i := range l.Nodes {
		n := &l.Nodes[i]
		switch {
		case n.Stage != Waiting:
		case n.ReadyAt.IsZero():
			l.openAt(n, n.Asked.Add(readyMost))
		case l.pods[n.Name] == 0:
			l.openAt(n, n.ReadyAt.Add(meantSoon))
		case !l.openAt(n, n.ReadyAt.Add(l.WaitMost)):
			ready = append(ready, n)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return l.safe(ready)
}

// openAt opens the node if it is time, and tells whether it is.
func (l *look) openAt(n *Node, turn time.Time) bool {
	if turn.After(l.At) {
		l.until(turn)
		return false
	}
	l.turns[n.Name] = true
	l.step.Open = append(l.step.Open, n.Name)
	return true
}

// open opens those of the batch whose pods all carry their hints; while kube-scheduler is
// quiet all of them or none, because the first one wakes it.
func (l *look) open(batch []*Node) {
	lacking := 0
	for _, n := range batch {
		lacking += l.lacking[n.Name]
	}
	if lacking > 0 && l.quiet() {
		return
	}
	for _, n := range batch {
		if l.lacking[n.Name] == 0 {
			l.step.Open = append(l.step.Open, n.Name)
		}
	}
}

// hint gives the pod the hint that it should have.
func (l *look) hint(p *Pod) {
	n := l.nodes[p.Node]
	open := n != nil && (n.Stage == Open || n.Stage == Opening || l.turns[n.Name])
	switch {
	case p.Hint == p.Node:
		if !p.Stands {
			l.lacking[p.Node]++
		}
		return
	case p.Hint != "" && !p.Ours:
		return
	case p.Hint == "" && p.Shape != nil && p.Shape.Weight() > weightMost:
		return
	case !open, l.hinted.crowd(p):
		if p.Hint != "" {
			l.step.Clear = append(l.step.Clear, *p)
		}
		return
	case p.Given >= givenMost:
		return
	}
	if due := p.GivenAt.Add(givenPause); p.Given >= givenFast && due.After(l.At) {
		l.until(due)
		return
	}
	l.step.Set = append(l.step.Set, *p)
	l.lacking[p.Node]++
	l.hinted.add(p.Node, p.Shape)
}

func (l *look) until(t time.Time) {
	if l.step.Until.IsZero() || t.Before(l.step.Until) {
		l.step.Until = t
	}
}
