package tui

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// The parts of a Moment. Those of internal/view have the names that a controller answers to.
const (
	partOverview  = "overview"
	partPending   = "pending"
	partPools     = "pools"
	partBlockers  = "blockers"
	partOfferings = "offerings"
	partCost      = "cost"
	partNext      = "next"
	// PartFleet is the nodes. by names labels of them.
	PartFleet = "fleet"
	// PartDecisions is the list of the journal, into a *journal.Listing.
	PartDecisions = "decisions"
)

// allParts returns the parts in the order in which they are read.
func allParts() []string {
	return []string{partOverview, PartFleet, partPending, partPools, partBlockers, partOfferings, partCost, partNext, PartDecisions}
}

// Source answers questions about a cluster. Its methods may be called from any goroutine.
type Source interface {
	// Name says whom it asks, in a few words.
	Name() string
	// Fill fills in a part of a moment: a view of internal/view by the name that live.Views knows, or
	// PartDecisions. by divides cost, and says which labels of nodes a fleet has, as view.ByLabels does.
	Fill(ctx context.Context, part, by string, into any) error
	// Explain answers about a subject.
	Explain(ctx context.Context, s journal.Subject) ([]journal.Answer, error)
}

// Moment is what a source answered: the parts that were asked for, each as it was last. Moments share parts
// that did not change, so nobody changes them.
type Moment struct {
	// At is when the newest part was read.
	At        time.Time
	Overview  *view.Overview
	Fleet     *view.Fleet
	Pending   *view.Pending
	Pools     *view.Pools
	Blockers  *view.Blockers
	Offerings *view.Offerings
	Cost      *view.Cost
	Next      *view.Next
	Decisions *journal.Listing
}

// Set puts a part, a pointer to a view or to a journal.Listing, into its place.
func (m *Moment) Set(part any) { m.set(part) }

// Parts returns the names of the parts that are views.
func Parts() []string { return allParts()[:len(allParts())-1] }

// empty returns a new value for a part; nil: there is no part of that name.
func empty(part string) any {
	switch part {
	case partOverview:
		return &view.Overview{}
	case PartFleet:
		return &view.Fleet{}
	case partPending:
		return &view.Pending{}
	case partPools:
		return &view.Pools{}
	case partBlockers:
		return &view.Blockers{}
	case partOfferings:
		return &view.Offerings{}
	case partCost:
		return &view.Cost{}
	case partNext:
		return &view.Next{}
	case PartDecisions:
		return &journal.Listing{}
	}
	return nil
}

// set puts a part into its place.
func (m *Moment) set(part any) {
	switch p := part.(type) {
	case *view.Overview:
		m.Overview = p
	case *view.Fleet:
		m.Fleet = p
	case *view.Pending:
		m.Pending = p
	case *view.Pools:
		m.Pools = p
	case *view.Blockers:
		m.Blockers = p
	case *view.Offerings:
		m.Offerings = p
	case *view.Cost:
		m.Cost = p
	case *view.Next:
		m.Next = p
	case *journal.Listing:
		m.Decisions = p
	}
}

// has reports whether a part is known.
func (m *Moment) has(part string) bool {
	switch part {
	case partOverview:
		return m.Overview != nil
	case PartFleet:
		return m.Fleet != nil
	case partPending:
		return m.Pending != nil
	case partPools:
		return m.Pools != nil
	case partBlockers:
		return m.Blockers != nil
	case partOfferings:
		return m.Offerings != nil
	case partCost:
		return m.Cost != nil
	case partNext:
		return m.Next != nil
	default:
		return m.Decisions != nil
	}
}
