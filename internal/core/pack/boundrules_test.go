package pack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// besideBound returns the snapshot of 50 ordinary pods of five namespaces, some of which have a rule
// of their own, and of nodes with room, on each of which runs a pod of a hostile namespace with so many terms
// of anti-affinity, no two of which are alike: everywhere, against nearly all pods, else against none.
func besideBound(nodes, terms int, everywhere bool) *cluster.Snapshot {
	var constraintSets []*cluster.Constraints
	for i := range 5 {
		sh := plainConstraints(fmt.Sprint("ordinary-", i))
		if i > 0 {
			own := cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In(sh.Namespace)}}
			sh.Spread = []cluster.Spread{{Key: label.Zone, MaxSkew: 1, Selector: own}}
		}
		constraintSets = append(constraintSets, sh)
	}
	snap := pendingPods(10, constraintSets...)
	for n := range nodes {
		sh := plainConstraints("hostile")
		for i := range terms {
			t := cluster.PodTerm{Key: label.Hostname, Namespaces: []string{"hostile"}}
			t.Selector = cluster.Selector{Some: true, Requirements: label.Requirements{"app": label.In(fmt.Sprint(n, "-", i))}}
			if everywhere {
				t.NamespaceSelector = cluster.Selector{Some: true}
				t.Selector.Requirements["app"] = label.NotIn(fmt.Sprint(n, "-", i))
			}
			sh.AntiAffinity = append(sh.AntiAffinity, t)
		}
		name := fmt.Sprint("node-", n)
		snap.Nodes = append(snap.Nodes, cluster.Node{
			Name: name, Claim: name, Pool: "default", Initialized: true, Ready: true, Labels: map[string]string{label.Hostname: name, label.Zone: "a"},
			Allocatable: quantity.List{quantity.CPU: 8000, quantity.Memory: 8 << 30, quantity.Pods: 100}, Pods: []cluster.PodCount{{Constraints: sh, Count: 1}},
		})
	}
	return snap
}

// TestRulesOfBoundPodsStarveNobody: however many rules pods have that run, ordinary pods are decided
// about at once, and kept off the nodes of those that repel them, also where that is more than can be read.
func TestRulesOfBoundPodsStarveNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes, terms int
		everywhere   bool
		effort       int64
	}{
		"few hundred rules each":               {40, 300, false, 0},
		"as many as the API server takes":      {20, 5000, false, 0},
		"many pods of few rules":               {1600, 8, false, 0},
		"against everybody":                    {40, 300, true, 0},
		"against everybody, more than is read": {40, 300, true, 30_000},
		"few rules each, against everybody":    {1600, 8, true, 0},
		"more of them than are read":           {100, 12, true, 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap := besideBound(c.nodes, c.terms, c.everywhere)
			p := Decide(snap, Options{Effort: c.effort})
			if len(p.GivenUp) != 0 || len(p.Refusals) != 0 {
				t.Errorf("the decision was given up %d times, and refuses %v", len(p.GivenUp), refusedBy(&p))
			}
			if normal := Decide(besideBound(c.nodes, 0, false), Options{}); c.effort == 0 && p.Effort > normal.Effort+(effortBase+effortNode*int64(c.nodes))/2 {
				t.Errorf("it takes %d units, without the rules %d", p.Effort, normal.Effort)
			}
			beside := 0
			for _, at := range p.Assignments {
				if strings.HasPrefix(at.Node, "node-") {
					beside++
				}
			}
			if c.everywhere != (beside == 0) {
				t.Errorf("%d pods are put beside the hostile ones (they repel everybody: %t)", beside, c.everywhere)
			}
		})
	}
}
