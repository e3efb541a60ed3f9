package disrupt

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// learn adds the results of a decision to the memory.
func (m *Memory) learn(w *work, events Events) {
	s, p, found := &w.scope, &w.out, &w.found
	m.Search = s.search
	if s.search != NoSearch {
		m.BudgetWaits, m.BudgetWaitsAt = found.budgetWaits, p.At
		m.learnSearch(w, events)
	}
	m.learnFailures(s, p)
	if !s.commandsOnly {
		m.DecidedAt = p.At
	}
	m.ChangesAt = NextAt(w.snap)
	m.learnActs(w, events)
}

// learnActs adds when the next decision is needed.
func (m *Memory) learnActs(w *work, events Events) {
	s, p, found := &w.scope, &w.out, &w.found
	changed := len(p.Reboots)+len(p.Undos)+len(p.Marks)+len(p.Unmarks)+len(p.SoftTaints)+len(p.SoftTaintsOver) > 0
	acted := changed || len(p.Commands)+len(p.Removals) > 0
	inProgress := len(p.Commands) > 0 || !found.commandsAt.IsZero()
	m.CommandsAt, m.Initialized = found.commandsAt, events.Initialized
	if settled := p.At.Add(w.opts.Grace); len(p.Commands) > 0 && (found.commandsAt.IsZero() || found.commandsAt.After(settled)) {
		m.CommandsAt = settled
	}
	settling := m.CommandsAt.After(p.At) && m.CommandsAt.Sub(p.At) <= w.opts.Grace
	if changed {
		m.CommandsAt = time.Time{}
	}
	m.Busy = changed || inProgress
	m.noteIdle(!acted && !settling && (s.sawAll(inProgress) || s.waiting), events.Reported)
}

// noteIdle adds whether the decision, when so many events were reported, found nothing to do.
func (m *Memory) noteIdle(idle bool, reported uint64) {
	idleFor := idleMin
	if idle && m.Idle && m.Reported == reported {
		idleFor = min(2*m.IdleFor, idleMax)
	}
	m.Idle, m.IdleFor, m.Reported = idle, idleFor, reported
}

// learnFailures adds cooldowns for what failed.
func (m *Memory) learnFailures(s *scope, p *plan.Disruption) {
	failed := map[string]bool{}
	for i := range p.Undos {
		for _, r := range p.Undos[i].Open {
			failed[r.Pool] = failed[r.Pool] || p.Undos[i].Failed
		}
	}
	for pool, yes := range failed {
		if yes {
			m.PoolCooldowns[pool] = m.PoolCooldowns[pool].after(p.At, poolCooldownMin, poolCooldownMax, verdict.Verdict{})
		}
	}
	cool := func(node string, why verdict.Verdict) {
		m.NodeCooldowns[node] = m.NodeCooldowns[node].after(p.At, nodeCooldownMin, nodeCooldownMax, why)
	}
	for _, why := range p.Blocked {
		if _, cooling := s.coolingDown[why.Subject]; why.Reason == verdict.NoReplacement && !cooling {
			cool(why.Subject, why)
		}
	}
	for i := range p.Undos {
		for _, r := range p.Undos[i].Open {
			cool(r.Node, p.Undos[i].Why)
		}
	}
}

// learnSearch adds the results of a search for consolidation.
func (m *Memory) learnSearch(w *work, events Events) {
	s, p, found := &w.scope, &w.out, &w.found
	begun := slices.ContainsFunc(p.Commands, func(s plan.Command) bool { return s.Reason == Underutilized })
	switch all := s.search != ChangedSearch; {
	case all && !found.conclusive:
		m.ConclusiveAt, m.ConclusiveFor = time.Time{}, 0
	case all && begun:
		m.ConclusiveAt, m.ConclusiveFor, m.ConclusiveReported = p.At, conclusiveMin, events.Reported
	case all:
		most := conclusiveMax
		if events.Reported == m.ConclusiveReported && !m.AnyYoung {
			most = conclusiveIdleMax
		}
		m.ConclusiveAt, m.ConclusiveFor, m.ConclusiveReported = p.At, min(max(2*m.ConclusiveFor, conclusiveMin), most), events.Reported
	}
	if found.conclusive {
		m.CheckedAt, m.Excluded = p.At, found.excluded
	}
	if s.search != ChangedSearch {
		m.BestTry = found.try
		if s.try == 0 {
			m.AllTriesAt = p.At
		}
	}
	m.SearchBackoff = min(max(2*m.SearchBackoff, searchBackoffMin), searchBackoffMax)
	if begun || !found.conclusive {
		m.SearchBackoff = 0
	}
	if until := p.At.Add(m.SearchBackoff); until.After(m.SearchAt) {
		m.SearchAt = until
	}
}
