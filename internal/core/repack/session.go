package repack

import (
	"maps"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/effort"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Session is the running nodes with their pods, and changes to them that can be undone: a node is
// removed, its pods are rescheduled, and nodes are launched for those that no node has room for.
// Rescheduled pods keep all rules; their preferences are ignored.
//
// A change consists of Nodes.Remove, Rescheduler.Reschedule and Launcher.LaunchFor. It is undone
// by Nodes.Undo, or made final by Nodes.Keep. Pods that are alike are one class, so the time that
// it takes depends on the nodes and classes, not on the pods.
type Session struct {
	Inventory   *Inventory
	Nodes       *Nodes
	Rescheduler *Rescheduler
	Launcher    *Launcher
}

// NewSession returns the session of a snapshot. Pending pods take room on the existing nodes first,
// as far as there is any. A spot offering counts at the price at which there are spotOfferingsMin
// offerings that hold as much. All work counts on the meter.
func NewSession(snap *cluster.Snapshot, opts model.Options, spotOfferingsMin int, meter *effort.Meter) *Session {
	if opts.TypesMax == 0 {
		opts.TypesMax = model.TypesMaxDefault
	}
	opts.PriceCap = math.Inf(1) // Launch has its own
	m := model.New(snap, sessionSpace(snap), opts, meter)
	inv := &Inventory{model: m, topo: &place.Topology{Model: m}, spotOfferingsMin: spotOfferingsMin, supplies: slices.Sorted(maps.Keys(m.Supplies))}
	inv.addClasses()
	inv.setConflicts()
	ledger, running := place.NewLedger(snap, inv.classes, meter)
	inv.topo.Ledger, inv.ledger = ledger, ledger
	inv.stateNeeds()
	nodes := &Nodes{inv: inv, unplaced: make([]int32, len(inv.classes))}
	nodes.addHosts(inv.class, running)
	inv.addOfferings()
	inv.orderClasses()
	nodes.price()
	inv.yield()
	nodes.measure()
	r := &Rescheduler{inv: inv, nodes: nodes, room: make([]firstRoom, len(inv.classes))}
	r.rank(nil)
	r.reservePending(inv.class)
	return &Session{Inventory: inv, Nodes: nodes, Rescheduler: r, Launcher: newLauncher(inv, nodes, r)}
}

// sessionSpace is model.SpaceOf, with what reschedulable pods ask for.
func sessionSpace(snap *cluster.Snapshot) quantity.Space {
	space := model.SpaceOf(snap)
	lists := []quantity.List{{}}
	for _, name := range space {
		lists[0][name] = 0
	}
	var last *cluster.Constraints
	seen := map[*cluster.Constraints]bool{}
	for i := range snap.Nodes {
		for r := range snap.Nodes[i].Reschedulable {
			if sh := snap.Nodes[i].Reschedulable[r].Constraints; sh != last && !seen[sh] {
				seen[sh], last = true, sh
				lists = append(lists, sh.Requests)
			}
		}
	}
	return quantity.SpaceOf(lists...)
}
