package apply

import (
	"sync"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quarantine"
)

// Quarantine is what the loops that decide about pods know of those that decisions could not
// cope with. The provisioner learns it; the loops of a process share one, the zero value is ready.
type Quarantine struct {
	mu     sync.Mutex // protects memory
	memory quarantine.Memory
}

// Divide returns the parts of a snapshot, as quarantine.Memory does.
func (q *Quarantine) Divide(snap *cluster.Snapshot) quarantine.Parts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.memory.Divide(snap)
}

// Learn remembers which pods a plan for the snapshot was given up for.
func (q *Quarantine) Learn(snap *cluster.Snapshot, p *plan.Plan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.memory.Learn(snap, p)
}

// Without returns the snapshot without pods that are quarantined.
func (q *Quarantine) Without(snap *cluster.Snapshot) *cluster.Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.memory.Without(snap)
}
