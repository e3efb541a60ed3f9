package pack

import (
	"reflect"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// recentMost is how many decisions Recent remembers: a pass makes one that prefers other nodes than those that
// are to go, and one that does not.
const recentMost = 2

// Recent remembers the last decisions that launch nothing. While pods are refused, the cluster is looked at
// again and again, and most of the time nothing has changed. The zero value remembers nothing.
type Recent struct {
	made [recentMost]struct {
		about *cluster.Snapshot
		plan  plan.Plan
	}
	oldest int
}

// Decide is Decide with the same options each time. It does not decide again what is known.
func (r *Recent) Decide(snap *cluster.Snapshot, opts Options) plan.Plan {
	for i := range r.made {
		if m := &r.made[i]; m.about != nil && unchanged(m.about, snap) {
			p := m.plan
			p.At = snap.At
			return p
		}
	}
	p := Decide(snap, opts)
	if len(p.Launches)+len(p.GivenUp) == 0 {
		m := &r.made[r.oldest]
		m.about, m.plan = snap, p
		r.oldest = (r.oldest + 1) % recentMost
	}
	return p
}

// unchanged reports whether the snapshots differ in their instants only, and Decide has the same answer at both:
// the time decides which gangs are tried (trialOrder), and whether nodes are launched for a buffer (waits).
func unchanged(was, is *cluster.Snapshot) bool {
	if len(was.Pending) != len(is.Pending) || len(was.Nodes) != len(is.Nodes) || len(was.Gangs) > gangTries {
		return false
	}
	for i := range was.Buffers {
		if was.Buffers[i].LaunchAfter.After(was.At) {
			return false
		}
	}
	at := *was
	at.At = is.At
	return reflect.DeepEqual(&at, is)
}
