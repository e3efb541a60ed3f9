package journal

import (
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// arrivalsMost bounds how many arrivals wait for the next decision. Those beyond it are dropped.
const arrivalsMost = 10_000

// Arrival is what happened, and when, until a pod was bound to the node that was launched for it.
type Arrival struct {
	Pod      cluster.PodRef
	Claim    string
	Decision ID
	// Created is in whole seconds. Seen is when the window was opened that the decision ended, Planned when the solver
	// began, Decided when it had ended.
	Created, Seen, Planned, Decided          time.Time
	Launched, Registered, Initialized, Bound time.Time
}

// arrivals are those that no timeline has yet.
type arrivals struct {
	mu   sync.Mutex
	list []*Arrival
}

// Arrived hands an arrival in, and returns at once. It is in the timeline with the next decision.
func (j *Journal) Arrived(a *Arrival) {
	if j == nil {
		return
	}
	j.arrivals.mu.Lock()
	defer j.arrivals.mu.Unlock()
	if len(j.arrivals.list) < arrivalsMost {
		j.arrivals.list = append(j.arrivals.list, a)
	}
}

// take returns the arrivals that no timeline has yet.
func (x *arrivals) take() []*Arrival {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.list
	x.list = nil
	return list
}

// arrived says of pods that something was decided about how long they waited, and for what.
func (t *timelines) arrived(list []*Arrival) {
	for _, a := range list {
		x := &speaker{timelines: t, saying: saying{loop: record.Provisioning, at: a.Bound, until: a.Bound, times: 1, decision: a.Decision}}
		if l := t.find(identity{KindPod, a.Pod.Namespace, a.Pod.Name, a.Pod.UID}); l != nil {
			x.say(l, fmt.Sprintf("bound to the node of claim %s %s after its creation", a.Claim, seconds(a.Created, a.Bound)), a.stages())
		}
	}
}

// stages says where the seconds went.
func (a *Arrival) stages() string {
	return fmt.Sprintf("%s until kube-scheduler had found no place, %s in the batch window, %s for the plan, %s for the instance, %s until its Node registered, %s until that was initialized, %s until the pod was bound",
		seconds(a.Created, a.Seen), seconds(a.Seen, a.Planned), seconds(a.Planned, a.Decided), seconds(a.Decided, a.Launched),
		seconds(a.Launched, a.Registered), seconds(a.Registered, a.Initialized), seconds(a.Initialized, a.Bound))
}

// seconds returns how long it took from one time to another; never less than nothing, since clocks differ.
func seconds(from, to time.Time) string { return fmt.Sprintf("%.1fs", max(0, to.Sub(from).Seconds())) }
