package disrupt

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/consolidate"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// scope is what one decision is about. It follows from the snapshot, the memory and the event counts.
type scope struct {
	// commandsOnly: only commands in progress are decided about.
	commandsOnly bool
	// search is the search for consolidation that is made if nothing is in its way.
	search Search
	// waiting: no search is made because all that was found still waits for budgets.
	waiting bool
	// since is when a search last left nothing to be begun, if that still holds; zero: all nodes have
	// to be searched. excluded were no candidates then.
	since    time.Time
	excluded []string
	// try is the order of nodes that is tried first, with few others; 0: all are tried.
	try int
	// paused are the pools in cooldown, and until when.
	paused map[string]time.Time
	// coolingDown are the nodes in cooldown, by name, and why.
	coolingDown map[string]verdict.Verdict
}

// sawAll reports whether the decision covered all that there is to decide before the next event. What
// it leaves out while commands are in progress is decided as soon as they have ended.
func (s *scope) sawAll(inProgress bool) bool {
	return s.commandsOnly && inProgress || s.search == FullSearch || s.search == ChangedSearch
}

// recall returns the scope of the next decision, and forgets what is over.
func (m *Memory) recall(snap *cluster.Snapshot, events Events) scope {
	s := scope{paused: map[string]time.Time{}, coolingDown: map[string]verdict.Verdict{}}
	m.recallCooldowns(&s, snap.At)
	holds := m.ConclusiveFor
	if events.Reported != m.ConclusiveReported {
		holds = min(holds, conclusiveMax)
	}
	conclusive := snap.At.Sub(m.ConclusiveAt) < holds
	s.commandsOnly = m.Busy && snap.At.Sub(m.DecidedAt) < pauseCalm && (m.ChangesAt.IsZero() || snap.At.Before(m.ChangesAt))
	s.waiting = m.isWaiting(snap)
	if conclusive {
		s.since, s.excluded = m.CheckedAt, m.Excluded
	}
	switch {
	case s.commandsOnly || s.waiting || snap.At.Before(m.SearchAt):
		s.search = NoSearch
	case conclusive:
		s.search = ChangedSearch
	case snap.At.Before(m.FullSearchAt):
		s.search = DrainSearch
	default:
		s.search = FullSearch
	}
	if !conclusive && snap.At.Sub(m.AllTriesAt) < triesHold {
		s.try = m.BestTry
	}
	return s
}

// recallCooldowns adds the cooldowns to a scope. One that has been over for as long as it
// lasted is forgotten: the next starts from the shortest again.
func (m *Memory) recallCooldowns(s *scope, now time.Time) {
	for pool, c := range m.PoolCooldowns {
		s.paused[pool] = c.Until
		if c.Until.After(m.ConclusiveAt) && !c.Until.After(now) {
			m.ConclusiveAt = time.Time{} // its nodes may be replaced again
		}
	}
	for _, cooldowns := range []map[string]Cooldown{m.PoolCooldowns, m.NodeCooldowns} {
		maps.DeleteFunc(cooldowns, func(_ string, c Cooldown) bool { return now.Sub(c.Until) > c.Wait })
	}
	for node, c := range m.NodeCooldowns {
		if now.Before(c.Until) {
			s.coolingDown[node] = c.Why
		}
	}
}

// notice forgets what a snapshot makes worth another try.
func (m *Memory) notice(snap *cluster.Snapshot) {
	m.noticeLaunches(snap)
	m.noticeRoom(snap)
	m.noticeBuffers(snap)
}

// noticeBuffers has all nodes searched again when there are fewer chunks of capacity buffers than
// before: no pod came or went on the nodes that are not needed any more.
func (m *Memory) noticeBuffers(snap *cluster.Snapshot) {
	chunks := 0
	for i := range snap.Buffers {
		chunks += snap.Buffers[i].Chunks
	}
	if chunks < m.Chunks {
		m.ConclusiveAt = time.Time{}
	}
	m.Chunks = chunks
}

// noticeLaunches has all nodes searched again when something can be launched that could not be
// before, or for less.
func (m *Memory) noticeLaunches(snap *cluster.Snapshot) {
	if Cheaper(m.Pools, snap.Pools) {
		m.ConclusiveAt, m.ConclusiveFor, m.BudgetWaits = time.Time{}, 0, nil
		m.SearchBackoff, m.SearchAt = 0, time.Time{}
		maps.DeleteFunc(m.NodeCooldowns, func(_ string, c Cooldown) bool { return c.Why.Reason == verdict.NoReplacement })
	}
	m.Pools, m.AnyYoung = snap.Pools, consolidate.AnyYoung(snap)
}

// noticeRoom ends the cooldown of some nodes that could not be replaced, if the limits of their pool leave
// more than at the last decision: of the nodes whose cooldowns end next.
func (m *Memory) noticeRoom(snap *cluster.Snapshot) {
	if len(m.NodeCooldowns) == 0 {
		m.LimitsLeft = nil
		return
	}
	room := Room(snap)
	for pool, now := range room {
		had, known := m.LimitsLeft[pool]
		if !known || !anyMore(had, now) {
			continue
		}
		var waiting []string
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			if c, is := m.NodeCooldowns[n.Name]; is && n.Pool == pool && c.Why.Reason == verdict.NoReplacement && snap.At.Before(c.Until) {
				waiting = append(waiting, n.Name)
			}
		}
		slices.SortStableFunc(waiting, func(a, b string) int { return m.NodeCooldowns[a].Until.Compare(m.NodeCooldowns[b].Until) })
		for _, name := range waiting[:min(len(waiting), roomTries)] {
			c := m.NodeCooldowns[name]
			c.Until = snap.At
			m.NodeCooldowns[name] = c
		}
	}
	m.LimitsLeft = room
}

// anyMore reports whether there is more of any resource than before.
func anyMore(had, now quantity.List) bool {
	for name, n := range now {
		if n > had[name] {
			return true
		}
	}
	return false
}

// isWaiting reports whether all commands that were found a short time ago still wait for budgets.
func (m *Memory) isWaiting(snap *cluster.Snapshot) bool {
	if len(m.BudgetWaits) == 0 || snap.At.Sub(m.BudgetWaitsAt) >= budgetPatience {
		return false
	}
	ledger := budget.Open(snap)
	for pool, had := range m.BudgetWaits {
		left := ledger.Left(pool, Underutilized)
		if left > had {
			m.BudgetWaits = nil
			return false
		}
		m.BudgetWaits[pool] = left
	}
	return true
}
