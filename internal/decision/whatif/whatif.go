// Package whatif says what a change of NodePools would do before anybody makes it: which nodes would drift, when
// the budgets let them go, what the nodes cost then, and which pods would have no place.
//
// It asks the controller's own decisions twice, about the cluster as it is and as it would be (core/forecast), and
// compares. Nothing is changed anywhere.
//
// Read Answer, then change.go (what may be different), pools.go (NodePools from files and from settings),
// drift.go, spot.go, least.go (lower bounds).
package whatif

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/forecast"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/view"
)

// Input is a cluster and the change that is asked about.
type Input struct {
	// Objects are those of simulate.Present. They do not change.
	Objects []client.Object
	Cluster string
	At      time.Time
	// From is what can be launched. Presumes say what that rests on.
	From     simulate.Catalog
	Presumes []string
	// Options are those of the forecasts, but for budgets.
	Options forecast.Options
	Change  Change
}

// Answer compares the cluster left alone with the cluster after the change.
func Answer(in *Input) (*view.WhatIf, error) {
	before := poolsOf(in.Objects)
	left, err := in.variant(in.Objects, before, nil)
	if err != nil {
		return nil, err
	}
	pools, said, err := in.Change.apply(before, &in.From)
	if err != nil {
		return nil, err
	}
	evicted := 0
	then, err := in.variant(in.withPools(before, pools), pools, func(snap *cluster.Snapshot) {
		if in.Change.Spot != nil {
			evicted = pin(snap, *in.Change.Spot)
		}
	})
	if err != nil {
		return nil, err
	}
	v := view.WhatIfOf(left, then, said, append(slices.Clone(in.Presumes), in.presumed(left, then)...), evicted)
	return &v, nil
}

// variant forecasts what becomes of objects. edit changes the snapshot first; nil: nothing does.
func (in *Input) variant(objects []client.Object, pools []*karpenterv1.NodePool, edit func(*cluster.Snapshot)) (*view.Variant, error) {
	c, err := simulate.Among(copied(objects), in.Cluster, in.From, in.At)
	if err != nil {
		return nil, err
	}
	if edit != nil {
		edit(c.Snapshot)
	}
	opts := in.Options
	opts.BudgetsAt = budgetsOf(pools)
	result := forecast.Run(c.Snapshot, opts)
	out := &view.Variant{Snapshot: c.Snapshot, Forecast: &result}
	out.Least, out.Unplaced = least(c.Snapshot, opts.Pack)
	return out, nil
}

// copied returns objects that may be changed: reading them into a snapshot does.
func copied(objects []client.Object) []client.Object {
	out := make([]client.Object, len(objects))
	for i, o := range objects {
		out[i] = o.DeepCopyObject().(client.Object)
	}
	return out
}

func poolsOf(objects []client.Object) (pools []*karpenterv1.NodePool) {
	for _, o := range objects {
		if np, is := o.(*karpenterv1.NodePool); is {
			pools = append(pools, np)
		}
	}
	return pools
}

// budgetsOf returns the budgets of NodePools at any time, as forecast.Options has them.
func budgetsOf(pools []*karpenterv1.NodePool) func(string, time.Time) ([]cluster.Budget, time.Time) {
	return func(name string, at time.Time) (budgets []cluster.Budget, first time.Time) {
		i := slices.IndexFunc(pools, func(np *karpenterv1.NodePool) bool { return np.Name == name })
		if i < 0 {
			return nil, first
		}
		return BudgetsAt(pools[i], at)
	}
}

// BudgetsAt returns the budgets of a NodePool at an instant, and when the first of them changes; zero: not within a week.
func BudgetsAt(np *karpenterv1.NodePool, at time.Time) (budgets []cluster.Budget, first time.Time) {
	for _, changes := range translate.BudgetChanges(np, at) {
		if !changes.IsZero() && (first.IsZero() || changes.Before(first)) {
			first = changes
		}
	}
	return translate.Budgets(np, at), first
}

// deletingCount returns how many nodes of ours are being deleted.
func deletingCount(snap *cluster.Snapshot) (n int) {
	for i := range snap.Nodes {
		if snap.Nodes[i].Deleting && snap.Nodes[i].Claim != "" {
			n++
		}
	}
	return n
}

// presumed says what the forecasts rest on.
func (in *Input) presumed(left, then *view.Variant) []string {
	start, drain := in.Options.Start, in.Options.Drain
	if start == 0 {
		start = forecast.StartDefault
	}
	if drain == 0 {
		drain = forecast.DrainDefault
	}
	lines := []string{
		fmt.Sprintf("No pod comes or goes but by what is done here. A node is initialized %s after its launch, and gone %s after its deletion: pods that wait for a node or a PodDisruptionBudget may keep it longer.", start, drain),
		"Offerings stay as they are: nothing runs short, and no price changes. kube-scheduler binds pods where the plans mean them.",
	}
	if n := deletingCount(then.Snapshot); n > 0 {
		lines = append(lines, fmt.Sprintf("Nodes that are being deleted already: %d. They are presumed to be gone after that time, too.", n))
	}
	if slices.ContainsFunc(then.Snapshot.PDBs, func(b cluster.PodDisruptionBudget) bool { return b.Allowed <= 0 }) {
		lines = append(lines, "PodDisruptionBudgets that allow no eviction now never do.")
	}
	for _, x := range []struct {
		name string
		of   *view.Variant
	}{{"Left alone", left}, {"With the change", then}} {
		if end := x.of.Forecast.End; end == forecast.EndStopped || end == forecast.EndRounds {
			at := x.of.Forecast.Rest.At.Sub(in.At).Round(time.Second)
			lines = append(lines, fmt.Sprintf("%s: the forecast ends %s ahead, because it took too much work; there is more to be done later.", x.name, at))
		}
	}
	return lines
}
