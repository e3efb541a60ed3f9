package disperse

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/pack/model"
	"github.com/dovetail-sh/dovetail/internal/core/pack/place"
)

// A workload is the pods with the same constraints, labels included: those of one ReplicaSet or
// StatefulSet. kube-scheduler spreads these by default, and neither pods of Jobs nor pods with a
// spread of their own.

const (
	// nodeShare: a node should have no more than one in so many pods of a workload.
	nodeShare = 5
	// fewPods is up to how many pods of a workload half of them may be lost at once.
	fewPods = 7
	// A zone, and a spot offering, should have no more than domainPercent of the pods of a workload. Where that cannot be had,
	// domainPercentStep more are tried, up to domainPercentMax.
	domainPercent, domainPercentStep, domainPercentMax = 40, 5, 60
	// ReportedMin is how many pods a workload must have to be reported.
	ReportedMin = 10
)

// limitOf returns how many of so many pods of a workload one node should have at most: one in so many.
func limitOf(pods, share int32) int32 {
	if pods <= fewPods {
		return (pods + 1) / 2
	}
	return max(1, pods/share)
}

// Limit returns how many of so many pods of a workload one node should have at most.
func Limit(pods int32) int32 { return limitOf(pods, nodeShare) }

// Weight returns how many times the premium may be paid for a node: twice for spot nodes, which are lost
// more often.
func Weight(isSpot bool) float64 {
	if isSpot {
		return 2
	}
	return 1
}

// IsWorkload reports whether pods with these constraints are to be spread.
func IsWorkload(sh *cluster.Constraints) bool {
	if len(sh.Labels) == 0 || len(sh.Spread) > 0 {
		return false
	}
	for i := range sh.Preferences {
		if sh.Preferences[i].Spread != nil {
			return false
		}
	}
	for key := range sh.Labels {
		if key == "job-name" || strings.HasPrefix(key, "batch.kubernetes.io/") {
			return false
		}
	}
	return true
}

// sizes returns, by class, how many pods the workload has in all: pending ones that have a node, and
// running ones. It is 0 for pods that are not spread.
func sizes(s *place.State) []int32 {
	size := make([]int32, len(s.Classes))
	of := make(map[*cluster.Constraints]int32, len(s.Classes))
	for c := range s.Classes {
		if cl := &s.Classes[c]; !cl.IsBuffer && IsWorkload(cl.Constraints) {
			of[cl.Constraints] = int32(c)
		}
	}
	if len(of) == 0 {
		return size
	}
	var last *cluster.Constraints
	at, known := int32(0), false
	count := func(sh *cluster.Constraints) {
		if sh != last {
			last = sh
			at, known = of[sh]
		}
		if known {
			size[at]++
		}
	}
	for p := range s.Assignments {
		if s.Assignments[p].Kind != model.Unplaced {
			count(s.Model.Snapshot.Pending[p].Constraints)
		}
	}
	for i := range s.Model.Snapshot.Nodes {
		for r := range s.Model.Snapshot.Nodes[i].Reschedulable {
			count(s.Model.Snapshot.Nodes[i].Reschedulable[r].Constraints)
		}
	}
	return size
}
