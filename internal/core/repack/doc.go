// Package repack makes tentative changes to running nodes: a node is removed, its pods are
// rescheduled to other nodes, nodes are launched for the rest, and all of it can be undone.
// Consolidation searches with it.
//
// It may import pack/model, pack/place and what they import, but not pack itself. Read
// session.go first (a Session and its four parts), then inventory.go (what changes do not
// alter: classes, offerings, prices), nodes.go and changes.go (nodes, their changes and undo),
// reschedule.go (pods to other nodes), launcher.go, fill.go and greedy.go (nodes for few pods),
// many.go (nodes for many pods), launch.go (a planned node becomes a launch) and worth.go
// (bounds on what nodes are worth).
package repack
