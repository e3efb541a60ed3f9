package termination

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// endings remembers since when each pod of the Nodes that go has been seen ending. The time at
// which a pod is to have ended is by the API server's clock, and ours may be ahead of it.
type endings struct {
	mu    sync.Mutex
	since map[string]map[types.UID]time.Time // by node
}

// see records the pods of a Node that are ending.
func (e *endings) see(node *corev1.Node, pods []corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, seen := e.since[node.Name], map[types.UID]time.Time{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			continue
		}
		if seen[pods[i].UID] = now; !before[pods[i].UID].IsZero() {
			seen[pods[i].UID] = before[pods[i].UID]
		}
	}
	if e.since == nil {
		e.since = map[string]map[types.UID]time.Time{}
	}
	e.since[node.Name] = seen
}

// clock returns the time by which an ending pod of the Node may be judged: at least when the
// Node was deleted, else as long after the pod was to have ended as it has been seen ending.
func (e *endings) clock(node *corev1.Node, pod *corev1.Pod, now time.Time) time.Time {
	if pod.DeletionTimestamp == nil {
		return now
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at := node.DeletionTimestamp.Time
	if since, seen := e.since[node.Name][pod.UID]; seen {
		if own := pod.DeletionTimestamp.Add(now.Sub(since)); own.After(at) {
			at = own
		}
	}
	if at.After(now) {
		return now
	}
	return at
}

// forget is for a Node that is gone.
func (e *endings) forget(node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, node)
}
