// Package model states a snapshot in the terms in which pods are packed.
//
// The one idea: pods that are alike are one pod equivalence class, and what a class allows of a
// NodePool is a bitset of the pool's offerings, worked out once. From then on packing is
// int64 vectors and bitsets; nothing in the loops formats a string, uses a map or parses a
// quantity. The package decides nothing: it says what is allowed and where there is room. It
// may import the core's values (cluster, catalog, label, quantity, fit, topology, plan,
// verdict, effort), and no other package of pack.
//
// Read model.go and compile.go first, then classes.go and stages.go (what pods allow, with
// fewer and fewer preferences), pool.go, parts.go and limits.go (instance types, offerings and
// a NodePool's limits), admit.go (what of a NodePool a class allows), existing.go and
// planned.go (the nodes that are filled) and write.go (a planned node becomes a launch).
package model
