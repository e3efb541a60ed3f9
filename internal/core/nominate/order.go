package nominate

import (
	"cmp"
	"slices"
	"time"
)

const (
	// kube-scheduler's pauses after vain tries: the first, twice as long each time, the longest.
	backoffFirst = time.Second
	backoffMost  = 10 * time.Second
	// quietAfter is how long nothing is heard of the pods once kube-scheduler has tried them all.
	quietAfter = 80 * time.Millisecond
	// triesEach is how many pods kube-scheduler may try in the time that one of several
	// nodes takes to open, and triesBehind how many it may have tried that we have not heard
	// of yet.
	triesEach   = 2
	triesBehind = 8
	// turnPods is how many pods are hinted for one turn while kube-scheduler is quiet, so
	// that it is not quiet for long.
	turnPods = 300
	// spareMost is how long a node with room to spare waits for others.
	spareMost = time.Second
)

// safe returns the nodes whose turn it is: those whose pods kube-scheduler will not try
// before the nodes are open. If it is quiet there is always one: with nothing else about to
// open, nothing wakes kube-scheduler before that node is open.
func (l *look) safe(ready []*Node) []*Node {
	first := l.firstTries()
	slices.SortStableFunc(ready, func(a, b *Node) int { return -cmp.Compare(first[a.Name], first[b.Name]) })
	opening, tried, pods := l.opening(), 0, 0
	othersWait := l.othersWait()
	if !l.quiet() {
		tried = triesBehind
		l.until(l.Heard.Add(quietAfter))
	}
	var chosen []*Node
	for _, n := range ready {
		if last := n.ReadyAt.Add(spareMost); n.Spare && othersWait && last.After(l.At) {
			l.until(last)
			continue
		}
		alone := l.quiet() && opening == 0
		opening++
		pods += l.pods[n.Name]
		if !alone && (first[n.Name] < tried+triesEach*opening || pods > turnPods) {
			break
		}
		chosen = append(chosen, n)
		l.turns[n.Name] = true
	}
	return chosen
}

// opening returns how many nodes are about to be open.
func (l *look) opening() int {
	opening := 0
	for i := range l.Nodes {
		if l.Nodes[i].Stage == Opening {
			opening++
		}
	}
	return opening
}

// othersWait tells whether pods are meant for nodes that are closed and have no room to spare.
func (l *look) othersWait() bool {
	if l.Coming > 0 {
		return true
	}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; !n.Spare && (n.Stage == Closed || n.Stage == Waiting) {
			return true
		}
	}
	return false
}

// quiet tells whether kube-scheduler has nothing to try.
func (l *look) quiet() bool { return !l.Heard.Add(quietAfter).After(l.At) }

// firstTries returns how many pods kube-scheduler tries before the first one of each node.
// Its queue has those first that need not pause any more, then the others by the second in
// which their pause ends; among them it goes by priority, then by who was tried first.
func (l *look) firstTries() map[string]int {
	type queued struct {
		*Pod
		pauses time.Time
	}
	queue := make([]queued, len(l.Pods))
	for i := range l.Pods {
		queue[i] = queued{&l.Pods[i], l.pauses(&l.Pods[i])}
	}
	slices.SortStableFunc(queue, func(a, b queued) int {
		return cmp.Or(a.pauses.Compare(b.pauses), -cmp.Compare(a.Priority, b.Priority), a.TriedAt.Compare(b.TriedAt))
	})
	first := map[string]int{}
	for i, p := range slices.Backward(queue) {
		first[p.Node] = i
	}
	return first
}

// pauses returns the second in which the pause of a pod ends; zero: it has ended.
func (l *look) pauses(p *Pod) time.Time {
	pause := min(backoffFirst<<min(max(p.Tries-1, 0), 10), backoffMost)
	if end := p.TriedAt.Add(pause).Truncate(time.Second); !end.Before(l.At.Truncate(time.Second)) {
		return end
	}
	return time.Time{}
}
