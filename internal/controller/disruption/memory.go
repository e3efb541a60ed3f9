package disruption

import (
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/disrupt"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

const (
	// pauseMin and pauseMax bound for how long a pool whose replacements failed is left
	// alone; the time doubles from failure to failure.
	pauseMin, pauseMax = time.Minute, 10 * time.Minute
	// rest is how long a machine that cannot be replaced is left alone.
	rest = time.Minute
)

// memory is what was tried in vain a short time ago. The zero memory knows nothing;
// losing it costs some tries.
type memory struct {
	pools map[string]pause
	nodes map[string]resting
	// notCheaperBefore is when something cheaper is looked for again.
	notCheaperBefore time.Time
}

// pause is how long a pool is left alone, and until when it is.
type pause struct {
	wait  time.Duration
	until time.Time
}

type resting struct {
	why   verdict.Verdict
	until time.Time
}

// recall sets the options to what is remembered, and forgets what is over.
func (m *memory) recall(opts *disrupt.Options, now time.Time) {
	opts.Paused, opts.Resting = map[string]time.Time{}, map[string]verdict.Verdict{}
	// A pool that has been fine for as long as its last pause starts from the least again.
	maps.DeleteFunc(m.pools, func(_ string, p pause) bool { return now.Sub(p.until) > p.wait })
	maps.DeleteFunc(m.nodes, func(_ string, r resting) bool { return !now.Before(r.until) })
	for pool, p := range m.pools {
		opts.Paused[pool] = p.until
	}
	for node, r := range m.nodes {
		opts.Resting[node] = r.why
	}
	opts.SkipConsolidation = now.Before(m.notCheaperBefore)
}

// learn remembers what the plan found to be in vain.
func (m *memory) learn(p *plan.Plan) {
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
		if _, known := m.nodes[why.Subject]; why.Reason == verdict.NoReplacement && !known {
			m.nodes[why.Subject] = resting{why, p.At.Add(rest)}
		}
	}
}
