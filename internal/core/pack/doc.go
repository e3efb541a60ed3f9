// Package pack answers the question that Dovetail exists for: given the pending pods, the
// nodes that exist and the instance types that can be launched, which pod goes where, and
// which nodes are launched?
//
// It is made of layers, and imports go down: model states the snapshot as numbers and
// bitsets, place puts one pod after another on a node, launch chooses new nodes for many
// pods at once, and this package runs them in order, validates the result as a whole,
// keeps gangs whole and explains refusals. It may import those three and the rest of the
// core below them.
//
// Read Solve (solve.go) first, then solver.go (its state), validate.go and affinity_order.go
// (final validation: do all rules hold together, in some order of binding), refuse.go (why a
// pod has no node), decide.go (a decision that costs too much or panics), running.go
// (pods that kube-scheduler counts where they still run), gang.go (all
// pods of a gang or none) and spread.go (where kube-scheduler binds pods by itself).
package pack
