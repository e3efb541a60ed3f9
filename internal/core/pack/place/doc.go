// Package place puts pods on existing and planned nodes, one class and one pod after the
// other, and keeps count of the topology domains that rules between pods look at.
//
// It may import model and what model imports. Read state.go first (where every pod is), then
// fill.go (how a pod finds a node), spread.go (which node kube-scheduler prefers), topology.go and locate.go (the topology counts, and the
// domains of nodes), undetermined.go (nodes whose domain the cloud has yet to choose),
// daemons.go (DaemonSet pods counted by topology) and domains.go (planned nodes whose domain
// nothing has decided).
package place
