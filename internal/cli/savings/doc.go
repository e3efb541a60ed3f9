// Package savings answers what a cluster costs, what it would cost under Dovetail, and what its pods must cost at
// least, whoever scales it now: upstream Karpenter, Cluster Autoscaler, node groups, or nobody. It reads lists,
// writes nothing to the cluster and asks no cloud. What Cluster API's objects say is handed in.
//
// The one idea: nodes of node groups are given the NodePools and NodeClaims that they would have (adopt.go), and
// then the same consolidation decides as in the controller. Its steps are carried out by the checker of
// internal/decision/scenario, and every figure is the checker's (judge.go).
//
// Read prices.go (what is known of prices), adopt.go, judge.go, then report.go (figures) and table.go and page.go
// (how they are shown).
package savings
