package nominate

import (
	"cmp"
	"slices"
	"time"
)

const (
	// kube-scheduler's backoff after it tried a pod in vain: the first, doubling to the longest.
	backoffFirst = time.Second
	backoffMost  = 10 * time.Second
	// idleAfter is how long no pod event is observed once kube-scheduler has tried all pods.
	idleAfter = 80 * time.Millisecond
	// triesEach is how many pods kube-scheduler may try in the time that one of several
	// nodes takes to open, and triesBehind how many it may have tried that we have not
	// observed yet.
	triesEach   = 2
	triesBehind = 8
	// batchPods is how many pods are nominated for one batch of nodes while kube-scheduler is
	// idle, so that it is not idle for long.
	batchPods = 300
	// hasRoomMost is how long a node with spare capacity waits for other nodes.
	hasRoomMost = time.Second
)

// safe returns the nodes that may open: those whose pods kube-scheduler will not try before
// the nodes are open. If it is idle there is always one: when nothing else is about to open,
// nothing wakes kube-scheduler before that node is open.
func (d *decision) safe(ready []*Node) (chosen []unit) {
	units := d.units(ready, d.firstTries())
	slices.SortStableFunc(units, func(a, b unit) int { return -cmp.Compare(a.first, b.first) })
	opening, tried, pods := d.opening(), 0, 0
	if !d.idle() {
		tried = triesBehind
		d.until(d.LastPodEvent.Add(idleAfter))
	}
	for i := range units {
		u := &units[i]
		if last := u.nodes[0].ReadyAt.Add(d.roomWait(u.nodes[0])); u.gang == nil && last.After(d.At) {
			d.until(last)
			continue
		}
		alone := d.idle() && opening == 0
		opening++
		for _, n := range u.nodes {
			pods += d.pods[n.Name]
		}
		if !alone && (u.first < tried+triesEach*opening || pods > batchPods) {
			break
		}
		chosen = append(chosen, *u)
		for _, n := range u.nodes {
			d.chosen[n.Name] = true
		}
	}
	return chosen
}

// roomWait returns how long a node that is ready waits for others, because their pods could take its spare capacity.
func (d *decision) roomWait(n *Node) time.Duration {
	if n.HasRoom && d.othersWait() {
		return hasRoomMost
	}
	return 0
}

// opening returns how many nodes are about to be open.
func (d *decision) opening() int {
	opening := 0
	for i := range d.Nodes {
		if d.Nodes[i].Stage == Opening {
			opening++
		}
	}
	return opening
}

// othersWait reports whether there are target nodes that are closed and have no spare capacity.
func (d *decision) othersWait() bool {
	if d.Coming > 0 {
		return true
	}
	for i := range d.Nodes {
		if n := &d.Nodes[i]; !n.HasRoom && (n.Stage == Closed || n.Stage == Waiting) {
			return true
		}
	}
	return false
}

// idle reports whether kube-scheduler has no pod to try.
func (d *decision) idle() bool { return !d.LastPodEvent.Add(idleAfter).After(d.At) }

// firstTries returns how many pods kube-scheduler tries before the first pod of each node.
// Its queue has first the pods whose backoff has ended, then the others by the second in
// which their backoff ends; among them it sorts by priority, then by when they were last tried.
func (d *decision) firstTries() map[string]int {
	type queued struct {
		*Pod
		backoff time.Time
	}
	queue := make([]queued, len(d.Pods))
	for i := range d.Pods {
		queue[i] = queued{&d.Pods[i], d.backoffEnd(&d.Pods[i])}
	}
	slices.SortStableFunc(queue, func(a, b queued) int {
		return cmp.Or(a.backoff.Compare(b.backoff), -cmp.Compare(a.Priority, b.Priority), a.TriedAt.Compare(b.TriedAt))
	})
	first := map[string]int{}
	for i, p := range slices.Backward(queue) {
		first[p.Node] = i
	}
	return first
}

// backoffEnd returns the second in which the backoff of a pod ends; zero: it has ended, or the pod was
// never tried.
func (d *decision) backoffEnd(p *Pod) time.Time {
	if p.Tries == 0 {
		return time.Time{}
	}
	backoff := min(backoffFirst<<min(p.Tries-1, 10), backoffMost)
	if end := p.TriedAt.Add(backoff).Truncate(time.Second); !end.Before(d.At.Truncate(time.Second)) {
		return end
	}
	return time.Time{}
}
