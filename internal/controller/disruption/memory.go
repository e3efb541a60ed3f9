package disruption

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/budget"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

const (
	// pauseMin and pauseMax bound for how long a pool whose replacements failed is left
	// alone; the time doubles from failure to failure.
	pauseMin, pauseMax = time.Minute, 10 * time.Minute
	// rest is how long a machine that cannot be replaced is left alone. The time doubles from try to
	// try, as that of one for which steps are taken back does from step to step, up to pauseMax.
	rest = time.Minute
	// stillMin and stillMax bound for how long nothing is decided anew when there was nothing to
	// do and nothing was heard since: only time can change that, when it is not known. The time
	// doubles from look to look. With a step under way it is for as long as calm.
	stillMin, stillMax = 30 * time.Second, 2 * time.Minute
	// patience is for how long nothing cheaper is looked for when all that was found waits for
	// budgets, unless these let more machines go.
	patience = 30 * time.Second
	// retried is for how long only that of several searches is made again that found most, with
	// few others, if it still finds something: all of them take long.
	retried = 2 * time.Minute
	// roomFor is how many machines that could not be replaced are tried again when limits leave more room.
	roomFor = 4
	// thrift is how many times longer than the search for something cheaper took the next
	// one is put off.
	thrift = 10
	// lullMax bounds for how long nothing cheaper is looked for after searches that began
	// nothing. The time doubles from search to search, from calm on.
	lullMax = 4 * calm
	// settledMin and settledMax bound how long a search that left nothing to be begun saves others
	// from looking again at machines to which nothing has happened: prices change without anything
	// happening. The time doubles from search to search, to stillestMax while nothing at all is
	// heard, of prices neither, and no machine is young: events that say why machines stay last
	// an hour.
	settledMin, settledMax, stillestMax = time.Minute, 8 * time.Minute, 32 * time.Minute
)

// memory is what was tried in vain a short time ago. The zero memory knows nothing;
// losing it costs some tries.
type memory struct {
	pools map[string]pause
	nodes map[string]resting
	// idle: the last look, when that much had been heard, found nothing to do. It holds for still.
	// busy: it began something, or something is under way. New steps were last looked for at
	// searchedAt.
	// stepsAt is when one of the steps under way may go on if no machine is initialised beyond those
	// that were then; zero: it is not known.
	idle        bool
	busy        bool
	stepsAt     time.Time
	heard       uint64
	initialised uint64
	still       time.Duration
	searchedAt  time.Time
	// next is when time alone may change what is decided; zero: it is not known.
	next time.Time
	// drainsFrom is when drains are looked for again, and allFrom when everything cheaper is.
	drainsFrom, allFrom time.Time
	lull                time.Duration
	// settled is when everything was looked for and nothing was left to be begun, stays for how
	// long that holds, and settledHeard how much had been heard then; zero: something was. checked
	// is when all that had happened since was looked at, and nothing was left of that either.
	settled, checked time.Time
	unlooked         []string // machines that might not go at checked
	stays            time.Duration
	settledHeard     uint64
	// try is the search that found most of several; 0: none did. All were last made at triedAt.
	try     int
	triedAt time.Time
	// waits are the pools whose budgets all waits for that was found at foundAt, with how many
	// more of their machines these let go; empty: it waits for something else, or nothing was.
	waits   map[string]int
	foundAt time.Time
	// room is what limits left when that was last asked.
	room map[string]quantity.List
	// offered are the pools of the last look, and young tells whether a machine was then.
	offered []cluster.Pool
	young   bool
}

// pause is how long a pool is left alone, and until when it is.
type pause struct {
	wait  time.Duration
	until time.Time
}

type resting struct {
	why   verdict.Verdict
	wait  time.Duration
	until time.Time
}

// isIdle tells whether nothing that can't wait can have come since the last look: nothing was heard, or
// nothing by which steps under way go on.
func (m *memory) isIdle(heard, initialised uint64, now time.Time) bool {
	still := m.still
	if m.busy {
		still = calm
	}
	nothing := m.idle && m.heard == heard || m.initialised == initialised && now.Before(m.stepsAt)
	return nothing && now.Sub(m.searchedAt) < still && (m.next.IsZero() || now.Before(m.next))
}

// looked remembers what a look came to that began when that much had been heard.
func (m *memory) looked(heard uint64, idle bool) {
	had := m.still
	m.still = stillMin
	if idle && m.idle && m.heard == heard {
		m.still = min(2*had, stillMax)
	}
	m.idle, m.heard = idle, heard
}

// sawAll tells whether a look saw all that there is to decide until something happens. What
// is left out for a step under way is due at once when that has ended.
func sawAll(opts *disrupt.Options, under bool) bool {
	return opts.UnderWayOnly && under || !opts.SkipConsolidation && !opts.DrainOnly
}

// pause returns how long it is until the next look.
func (m *memory) pause(now time.Time) time.Duration {
	switch left := m.next.Sub(now); {
	case m.busy:
		return busy
	case m.next.IsZero() || left > calm:
		return calm
	default:
		return max(left, busy)
	}
}

// notice has everything looked at again when something can be bought that could not be before, or
// for less.
func (m *memory) notice(snap *cluster.Snapshot) {
	if disrupt.Cheaper(m.offered, snap.Pools) {
		m.settled, m.stays, m.waits = time.Time{}, 0, nil
		m.lull, m.drainsFrom = 0, time.Time{}
		maps.DeleteFunc(m.nodes, func(_ string, r resting) bool { return r.why.Reason == verdict.NoReplacement })
	}
	m.offered, m.young = snap.Pools, disrupt.AnyYoung(snap)
	m.noticeRoom(snap)
}

// noticeRoom has some machines tried again that could not be replaced, those first whose turn was
// next anyway, where limits leave more room than a look ago.
func (m *memory) noticeRoom(snap *cluster.Snapshot) {
	if len(m.nodes) == 0 {
		m.room = nil
		return
	}
	room := disrupt.Room(snap)
	for pool, now := range room {
		had, known := m.room[pool]
		if !known || !anyMore(had, now) {
			continue
		}
		var waiting []string
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			if r, rests := m.nodes[n.Name]; rests && n.Pool == pool && r.why.Reason == verdict.NoReplacement && snap.At.Before(r.until) {
				waiting = append(waiting, n.Name)
			}
		}
		slices.SortStableFunc(waiting, func(a, b string) int { return m.nodes[a].until.Compare(m.nodes[b].until) })
		for _, name := range waiting[:min(len(waiting), roomFor)] {
			r := m.nodes[name]
			r.until = snap.At
			m.nodes[name] = r
		}
	}
	m.room = room
}

// anyMore tells whether there is more of anything than before.
func anyMore(had, now quantity.List) bool {
	for name, n := range now {
		if n > had[name] {
			return true
		}
	}
	return false
}

// isWaiting tells whether all that was found a short time ago still waits for budgets.
func (m *memory) isWaiting(snap *cluster.Snapshot) bool {
	if len(m.waits) == 0 || snap.At.Sub(m.foundAt) >= patience {
		return false
	}
	books := budget.Open(snap)
	for pool, had := range m.waits {
		left := books.Left(pool, disrupt.Underutilized)
		if left > had {
			m.waits = nil
			return false
		}
		m.waits[pool] = left
	}
	return true
}

// recall sets the options to what is remembered when that much has been heard, and forgets what
// is over.
func (m *memory) recall(opts *disrupt.Options, heard uint64, now time.Time) {
	opts.Paused, opts.Resting = map[string]time.Time{}, map[string]verdict.Verdict{}
	for pool, p := range m.pools {
		opts.Paused[pool] = p.until
		if p.until.After(m.settled) && !p.until.After(now) {
			m.settled = time.Time{} // machines may be replaced again
		}
	}
	// A pool that has been fine for as long as its last pause starts from the least again.
	maps.DeleteFunc(m.pools, func(_ string, p pause) bool { return now.Sub(p.until) > p.wait })
	maps.DeleteFunc(m.nodes, func(_ string, r resting) bool { return now.Sub(r.until) > r.wait })
	for node, r := range m.nodes {
		if now.Before(r.until) {
			opts.Resting[node] = r.why
		}
	}
	stays := m.stays
	if heard != m.settledHeard {
		stays = min(stays, settledMax)
	}
	if now.Sub(m.settled) < stays {
		opts.Settled, opts.Unlooked = m.checked, m.unlooked
	}
	if opts.Settled.IsZero() && now.Sub(m.triedAt) < retried {
		opts.Try = m.try
	}
	opts.UnderWayOnly = m.busy && now.Sub(m.searchedAt) < calm && (m.next.IsZero() || now.Before(m.next))
	opts.SkipConsolidation = opts.UnderWayOnly || now.Before(m.drainsFrom)
	opts.DrainOnly = opts.Settled.IsZero() && now.Before(m.allFrom)
}

// searched remembers how long a search for something cheaper took. A long one for
// everything is followed by short ones for what needs no new machine.
func (m *memory) searched(opts *disrupt.Options, now time.Time, took time.Duration) {
	if all := !opts.DrainOnly && opts.Settled.IsZero(); all {
		m.drainsFrom, m.allFrom = now.Add(took), now.Add(thrift*took)
		return
	}
	m.drainsFrom = now.Add(thrift * took)
}

// learn remembers what the plan, made when that much had been heard, found to be in vain.
func (m *memory) learn(opts *disrupt.Options, heard uint64, p *plan.Plan) {
	if !opts.SkipConsolidation {
		m.waits, m.foundAt = maps.Clone(p.Waits), p.At
	}
	if !opts.SkipConsolidation {
		m.learnSearch(opts, heard, p)
	}
	if m.pools == nil {
		m.pools, m.nodes = map[string]pause{}, map[string]resting{}
	}
	failed := map[string]bool{}
	for i := range p.Undos {
		for _, r := range p.Undos[i].Open {
			failed[r.Pool] = failed[r.Pool] || p.Undos[i].Failed
		}
	}
	for pool, yes := range failed {
		if yes {
			wait := min(max(2*m.pools[pool].wait, pauseMin), pauseMax)
			m.pools[pool] = pause{wait, p.At.Add(wait)}
		}
	}
	for _, why := range p.Blocked {
		if _, rests := opts.Resting[why.Subject]; why.Reason == verdict.NoReplacement && !rests {
			m.letRest(why.Subject, why, p.At)
		}
	}
	for i := range p.Undos {
		for _, r := range p.Undos[i].Open {
			m.letRest(r.Node, p.Undos[i].Why, p.At)
		}
	}
}

// letRest leaves a machine alone for twice as long as the last time.
func (m *memory) letRest(node string, why verdict.Verdict, now time.Time) {
	wait := min(max(2*m.nodes[node].wait, rest), pauseMax)
	m.nodes[node] = resting{why, wait, now.Add(wait)}
}

// learnSearch remembers what a search for something cheaper came to.
func (m *memory) learnSearch(opts *disrupt.Options, heard uint64, p *plan.Plan) {
	begun := slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Reason == disrupt.Underutilized })
	switch all := opts.Settled.IsZero(); {
	case all && !p.Settled:
		m.settled, m.stays = time.Time{}, 0
	case all && begun:
		m.settled, m.stays, m.settledHeard = p.At, settledMin, heard
	case all:
		most := settledMax
		if heard == m.settledHeard && !m.young {
			most = stillestMax
		}
		m.settled, m.stays, m.settledHeard = p.At, min(max(2*m.stays, settledMin), most), heard
	}
	if p.Settled {
		m.checked, m.unlooked = p.At, p.Unlooked
	}
	if opts.Settled.IsZero() {
		m.try = p.Try
		if opts.Try == 0 {
			m.triedAt = p.At
		}
	}
	m.lull = min(max(2*m.lull, calm), lullMax)
	if begun || !p.Settled {
		m.lull = 0
	}
	if until := p.At.Add(m.lull); until.After(m.drainsFrom) {
		m.drainsFrom = until
	}
}
