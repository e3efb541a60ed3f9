package consolidate

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/verdict"
)

// blocked returns why a node may not be removed; yes: it may be. The verdict for a node without a
// NodeClaim of ours has no subject: nobody need read it.
func (o *Options) blocked(snap *cluster.Snapshot, n *cluster.Node, price float64) verdict.Verdict {
	if n.Claim == "" || n.Deleting || n.InFlight != nil {
		return verdict.Of(verdict.NodeBlocked, "", "")
	}
	if o.Candidate != nil {
		if v := o.Candidate(n); !v.IsYes() {
			return v
		}
	}
	switch {
	case !n.Initialized:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is not initialized")
	case n.DoNotDisrupt != "":
		return verdict.Of(verdict.NodeBlocked, n.Name, "%s", n.DoNotDisrupt)
	case n.Planned > 0:
		return verdict.Of(verdict.NodeBlocked, n.Name, "%d pods are meant for it", n.Planned)
	case n.DisruptionReason != "" || n.DisruptedTaint:
		return verdict.Of(verdict.NodeBlocked, n.Name, "it is being disrupted already")
	case math.IsNaN(price):
		return verdict.Of(verdict.Unconsolidatable, n.Name, "its price is not known: pool %s has no type %s in zone %s as %s",
			n.Pool, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.CapacityType])
	}
	for i := range n.Reschedulable {
		if v := o.holds(snap, &n.Reschedulable[i]); !v.IsYes() {
			return v.About(n.Name)
		}
	}
	return verdict.Verdict{}
}

// holds returns why a pod may not be evicted.
func (o *Options) holds(snap *cluster.Snapshot, r *cluster.ReschedulablePod) verdict.Verdict {
	if r.DoNotDisrupt != "" {
		return verdict.Of(verdict.NodeBlocked, "", "pod %s has %s", r.PodRef, r.DoNotDisrupt)
	}
	if why := r.Constraints.Invalid; why != "" {
		return verdict.Of(verdict.Unconsolidatable, "", "pod %s would have nowhere to go: %s", r.PodRef, why)
	}
	if v := o.CoolingDown(r, snap.At); !v.IsYes() {
		return v
	}
	if len(r.PDBs) > 1 {
		return verdict.Of(verdict.NodeBlocked, "", "pod %s has more than one PodDisruptionBudget (%s, %s)", r.PodRef,
			snap.PDBs[r.PDBs[0]].Name, snap.PDBs[r.PDBs[1]].Name)
	}
	for _, g := range r.PDBs {
		if snap.PDBs[g].Allowed < 1 {
			return verdict.Of(verdict.NodeBlocked, "", "PodDisruptionBudget %s allows no eviction of pod %s", snap.PDBs[g].Name, r.PodRef)
		}
	}
	return verdict.Verdict{}
}

// mayGo reports whether one command may remove the nodes: they are not too many, in all and of each
// pool, and no PodDisruptionBudget allows fewer evictions at once. A single node may always be
// removed: its drain waits for the budget.
func (o *Options) mayGo(snap *cluster.Snapshot, hosts []int32) bool {
	return len(hosts) <= o.StepMax && (len(hosts) < 2 || withinPodBudgets(snap, hosts)) && o.withinPools(snap, hosts)
}

// withinPodBudgets reports whether all pods of the nodes may be evicted at once.
func withinPodBudgets(snap *cluster.Snapshot, hosts []int32) bool {
	if len(snap.PDBs) == 0 {
		return true
	}
	evicted := map[int]int32{}
	for _, h := range hosts {
		for i := range snap.Nodes[h].Reschedulable {
			for _, g := range snap.Nodes[h].Reschedulable[i].PDBs {
				if evicted[g]++; evicted[g] > snap.PDBs[g].Allowed {
					return false
				}
			}
		}
	}
	return true
}

// withinPools reports whether one command may remove so many nodes of each pool.
func (o *Options) withinPools(snap *cluster.Snapshot, hosts []int32) bool {
	if o.PoolMax == nil {
		return true
	}
	count := map[string]int{}
	for _, h := range hosts {
		pool := snap.Nodes[h].Pool
		if count[pool]++; count[pool] > o.PoolMax(pool) {
			return false
		}
	}
	return true
}
