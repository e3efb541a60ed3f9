package disrupt

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// Memory is what disruption remembers from one decision to the next: what failed a short
// time ago, what was found, and when to search again. Propose takes the memory of the
// decision before and returns that of the next; nothing else keeps it. It is plain data and
// is recorded with each decision. The zero Memory knows nothing. Losing a Memory costs some
// searches and some tries; it never makes a decision wrong, because commands in progress are
// read from the snapshot.
type Memory struct {
	// PoolCooldowns are the NodePools, by name, whose replacements failed a short time ago:
	// nothing is launched for their nodes until the cooldown ends.
	PoolCooldowns map[string]Cooldown
	// NodeCooldowns are the nodes, by name, that could not be replaced, or whose command was
	// undone. They are no candidates until the cooldown ends.
	NodeCooldowns map[string]Cooldown

	// Idle: the last decision saw everything and found nothing to do, when Events.Reported
	// was Reported. It holds for IdleFor unless another event is reported.
	Idle     bool
	IdleFor  time.Duration
	Reported uint64
	// Busy: the last decision changed something, or commands are in progress.
	Busy bool
	// DecidedAt is when more than commands in progress was last decided about.
	DecidedAt time.Time
	// CommandsAt is when a command in progress may proceed if no Node becomes initialized
	// beyond the Initialized that were then; zero: it is not known.
	CommandsAt  time.Time
	Initialized uint64
	// ChangesAt is when time alone may change what is decided; zero: it is not known.
	ChangesAt time.Time

	// Search is the search for consolidation that the last decision made.
	Search Search
	// SearchAt is when the next search may be made, and FullSearchAt the next for more than
	// nodes that can be drained into others: a search that took long is put off for longer.
	SearchAt, FullSearchAt time.Time
	// SearchBackoff is how long the last search that began nothing put off the next.
	SearchBackoff time.Duration

	// ConclusiveAt is when a search of all nodes left nothing to be begun; zero: the last one
	// did not. It holds for ConclusiveFor: until then only nodes to which something has
	// happened since CheckedAt are searched. ConclusiveReported was Events.Reported then.
	ConclusiveAt       time.Time
	ConclusiveFor      time.Duration
	ConclusiveReported uint64
	// CheckedAt is when a search, of all nodes or of those that had changed, last left
	// nothing to be begun. Excluded are the nodes that were no candidates then.
	CheckedAt time.Time
	Excluded  []string

	// BestTry is the order of nodes that saved most when small clusters were planned in
	// several; 0: none did. All orders were last tried at AllTriesAt.
	BestTry    int
	AllTriesAt time.Time

	// BudgetWaits are the pools whose budgets alone keep commands from being begun that were
	// found at BudgetWaitsAt, with how many more nodes they allowed; empty: nothing waits for
	// budgets alone.
	BudgetWaits   map[string]int
	BudgetWaitsAt time.Time

	// LimitsLeft is what the limits of pools left at the last decision; nil: not asked for.
	LimitsLeft map[string]quantity.List
	// Pools are the NodePools of the last decision, with what could be launched.
	Pools []cluster.Pool
	// Chunks is how many chunks of capacity buffers there were at the last decision.
	Chunks int
	// AnyYoung: a node of the last decision was young (consolidation counts it dearer).
	AnyYoung bool
}

// Cooldown is for how long something is left alone after a failure.
type Cooldown struct {
	// Wait is how long it lasts. It doubles from failure to failure, until there was none for
	// as long as the last one lasted.
	Wait time.Duration
	// Until is when it ends.
	Until time.Time
	// Why is what failed; of pools it is empty.
	Why verdict.Verdict
}

// after returns the cooldown that follows another; the zero Cooldown: the first.
func (c Cooldown) after(now time.Time, shortest, longest time.Duration, why verdict.Verdict) Cooldown {
	wait := min(max(2*c.Wait, shortest), longest)
	return Cooldown{wait, now.Add(wait), why}
}

// Search says which nodes a decision searched for something cheaper.
type Search string

// The searches for consolidation.
const (
	NoSearch      Search = ""        // none was made
	FullSearch    Search = "full"    // all nodes
	ChangedSearch Search = "changed" // nodes to which something had happened
	DrainSearch   Search = "drain"   // only nodes whose pods fit on others
)

// Events counts what the watches have reported up to the instant of a snapshot.
type Events struct {
	// Reported counts all events of watches, and changes of what can be launched. As long as
	// it stays the same, only time changes the cluster.
	Reported uint64
	// Initialized counts the Nodes that became initialized.
	Initialized uint64
}

// IsIdle reports whether no decision is needed now: nothing was reported since the last one
// that could change it, and not enough time has passed.
func (m *Memory) IsIdle(events Events, now time.Time) bool {
	idleFor := m.IdleFor
	if m.Busy {
		idleFor = pauseCalm
	}
	nothing := m.Idle && m.Reported == events.Reported || m.Initialized == events.Initialized && now.Before(m.CommandsAt)
	return nothing && now.Sub(m.DecidedAt) < idleFor && (m.ChangesAt.IsZero() || now.Before(m.ChangesAt))
}

// Pause returns how long to wait until IsIdle is asked again.
func (m *Memory) Pause(now time.Time) time.Duration {
	switch left := m.ChangesAt.Sub(now); {
	case m.Busy:
		return pauseBusy
	case m.ChangesAt.IsZero() || left > pauseCalm:
		return pauseCalm
	default:
		return max(left, pauseBusy)
	}
}

// SearchTook adds to the memory that a decision at an instant returned how long its search
// for consolidation took by the clock on the wall. A long search of all nodes is followed by
// short ones for nodes that can be drained.
func (m *Memory) SearchTook(at time.Time, took time.Duration) {
	putOff := searchThrift * took
	switch m.Search {
	case NoSearch:
		return
	case FullSearch:
		m.FullSearchAt = at.Add(putOff)
		putOff = took
	case ChangedSearch, DrainSearch:
	}
	if until := at.Add(putOff); until.After(m.SearchAt) {
		m.SearchAt = until
	}
}

// WriteFailed adds to the memory that a decision returned that it could not be carried out
// whole: the next decision is soon.
func (m *Memory) WriteFailed() {
	m.Idle, m.IdleFor, m.CommandsAt, m.Busy = false, idleMin, time.Time{}, true
}

// DecisionFailed adds to the memory of the decision before that the decision ended in a bug.
func (m *Memory) DecisionFailed() {
	m.Idle, m.Busy, m.CommandsAt = false, false, time.Time{}
}

// own returns a copy of the memory that can be changed.
func (m Memory) own() Memory {
	m.PoolCooldowns, m.NodeCooldowns = maps.Clone(m.PoolCooldowns), maps.Clone(m.NodeCooldowns)
	m.BudgetWaits = maps.Clone(m.BudgetWaits)
	if m.PoolCooldowns == nil {
		m.PoolCooldowns = map[string]Cooldown{}
	}
	if m.NodeCooldowns == nil {
		m.NodeCooldowns = map[string]Cooldown{}
	}
	return m
}
