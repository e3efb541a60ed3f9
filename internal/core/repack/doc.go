// Package repack makes tentative changes to running nodes: a node is removed, its pods are
// rescheduled to other nodes, nodes are launched for the rest, and all of it can be undone.
// Consolidation searches with it.
//
// It may import pack/model, pack/place and what they import, but not pack itself. Read
// session.go first (a Session and its nodes), then place.go (changes, undo, rescheduling),
// offerings.go and price.go (what can be launched, and what pods are worth), fill.go and
// many.go (launching), and launch.go (a planned node becomes a launch).
package repack
