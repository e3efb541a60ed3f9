// Package topology holds the rules that place pods in relation to each other: spread,
// affinity, anti-affinity. They agree with kube-scheduler.
//
// The one idea: every rule is a count of pods by domain. A Ledger keeps all the counts
// that any pod's rules look at, and answers whether one more pod may go to a place. A
// place is one machine, known by the domain it is in for each key that rules mention.
//
// Read groups.go (which counts there are), ledger.go (keeping them), check.go (asking).
package topology
