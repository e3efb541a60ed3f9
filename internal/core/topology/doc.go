// Package topology holds the rules that place pods in relation to each other: spread,
// affinity, anti-affinity. They agree with kube-scheduler.
//
// The one idea: every rule is a count of pods by domain. A Ledger keeps all the counts
// that any pod's rules look at, and answers whether one more pod may go to a place. A
// place is one node, known by its domain under each key that rules mention.
//
// It imports other values of the core only. Read groups.go first (which counts there are), then
// ledger.go (counting) and check.go (asking); builder.go makes the groups from the pods' rules.
package topology
