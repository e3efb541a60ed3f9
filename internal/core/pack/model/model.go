package model

import (
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Model is the snapshot in the solver's terms.
type Model struct {
	Snapshot *cluster.Snapshot
	Options  Options
	Space    quantity.Space
	Pools    []*Pool // by weight
	Meter    *effort.Meter
	// Supplies is what is left of supplies before anything is planned; nil: no offering draws on any.
	Supplies catalog.Supplies
}

// Fork returns a model whose NodePools have limits of their own. Work with it is not metered.
func (m *Model) Fork() *Model {
	f := *m
	f.Meter, f.Pools = nil, make([]*Pool, len(m.Pools))
	for i, p := range m.Pools {
		f.Pools[i] = p.fork()
	}
	return &f
}
