// Package pack answers the question that Dovetail exists for: given the pending pods and
// the machines there are and could be, which pod goes where, and what is bought?
//
// The one idea: pods that are alike are one class, offerings that are alike are one atom,
// and what a class allows of a pool is a bitset of atoms, worked out once. From then on
// packing is int64 vectors and bitsets; nothing in the loops formats a string, touches a
// map or parses a quantity.
//
// Read Solve (solve.go) first, then compile.go (classes), pool.go (atoms), bin.go (what
// is being filled), launch.go (a bin becomes a launch), uphold.go and unled.go (does all of
// it hold together, in some order) and refuse.go (why not).
package pack
