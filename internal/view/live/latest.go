// Package live keeps what the loops saw and decided last, and answers over HTTP with views of it.
//
// A view is made when somebody asks, at most once a second for all readers, from snapshots that the
// loops made. Read latest.go first, then serve.go.
package live

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// Mirror is what is asked of the mirror when a view is made.
type Mirror interface {
	Shortages() []catalog.Shortage
	BudgetChanges() map[string][]time.Time
	BudgetSchedule(pool string) view.BudgetSchedule
}

// Latest keeps what views are made from. Its methods may be called from any goroutine. A nil Latest
// keeps nothing.
type Latest struct {
	// Journal knows more about refusals; nil: nobody does. It is set before Latest is used.
	Journal view.Journal
	// Observes: what the loops decide is not carried out. It is set before Latest is used.
	Observes bool

	mu     sync.Mutex // protects everything below
	state  view.State // its Snapshot is nil until a loop has handed one in
	mirror Mirror
	// revision counts what was handed in.
	revision int64
	// provisioningFaults and disruptionFaults are those of the newest decision of each loop.
	provisioningFaults, disruptionFaults []string
}

// Begin forgets everything: another mirror is used from now on.
func (l *Latest) Begin(m Mirror) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision++
	l.state, l.mirror, l.provisioningFaults, l.disruptionFaults = view.State{}, m, nil, nil
}

// Provisioned takes in a snapshot and who is refused in it. fault is what went wrong; nil: nothing did.
func (l *Latest) Provisioned(snap *cluster.Snapshot, refusals []plan.Refusal, fault error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(snap)
	l.state.Refusals, l.provisioningFaults = refusals, nil
	if fault != nil {
		l.provisioningFaults = []string{fmt.Sprintf("the plan for pending pods: %v", fault)}
	}
}

// Disrupted takes in a decision about a snapshot and what is remembered after it.
func (l *Latest) Disrupted(snap *cluster.Snapshot, d *plan.Disruption, next *disrupt.Memory, fault error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(snap)
	l.state.Memory = *next
	l.disruptionFaults = d.GivenUp
	if l.Observes {
		l.state.Commands = d.Commands
	}
	if fault != nil {
		l.disruptionFaults = append([]string{fmt.Sprintf("disruption: %v", fault)}, d.GivenUp...)
	}
	if bound, ok := view.BoundOf(snap, d, next.Search); ok {
		l.state.Bound = bound
	}
	l.stay(snap, d, next.Search)
}

// take takes in a snapshot if it is the newest.
func (l *Latest) take(snap *cluster.Snapshot) {
	l.revision++
	if l.state.Snapshot == nil || !snap.At.Before(l.state.Snapshot.At) {
		l.state.Snapshot = snap
	}
}

// stay takes in why nodes were not disrupted. What an earlier decision said holds for nodes that this one
// says nothing of, unless it searched all. States that were handed out keep theirs.
func (l *Latest) stay(snap *cluster.Snapshot, d *plan.Disruption, search disrupt.Search) {
	stays := make(map[string]view.Stay, len(snap.Nodes))
	if search != disrupt.FullSearch {
		maps.Copy(stays, l.state.Stays)
	}
	for _, v := range d.Blocked {
		stays[v.Subject] = view.Stay{Why: v, At: snap.At}
	}
	there := make(map[string]bool, len(snap.Nodes))
	for i := range snap.Nodes {
		there[snap.Nodes[i].Name] = true
	}
	maps.DeleteFunc(stays, func(node string, _ view.Stay) bool { return !there[node] })
	l.state.Stays = stays
}

// Revision returns a number that is another one whenever something was handed in.
func (l *Latest) Revision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// State returns what views are made from now; nil: no loop has decided yet.
func (l *Latest) State() *view.State {
	state, _ := l.stateAndRevision()
	return state
}

func (l *Latest) stateAndRevision() (*view.State, int64) {
	l.mu.Lock()
	state, mirror, revision := l.state, l.mirror, l.revision
	state.Faults = append(append([]string{}, l.provisioningFaults...), l.disruptionFaults...)
	l.mu.Unlock()
	if state.Snapshot == nil {
		return nil, revision
	}
	state.Journal, state.Observes = l.Journal, l.Observes
	if mirror != nil { // its lock is not taken within ours
		state.Shortages, state.BudgetChanges, state.BudgetSchedule = mirror.Shortages(), mirror.BudgetChanges(), mirror.BudgetSchedule
	}
	return &state, revision
}
