// Package lifecycle decides what happens next to one NodeClaim (Next), to one node that is being
// removed (Drain), and to one that may be broken (Repair). Each function gets one instant and
// answers with one step: what to do now, what to write down, and what to wait for until when.
//
// A step is small enough that after it, done or lost, the next call gives the right next step.
// Nothing is remembered between calls but by the objects and the cloud, so a crash between two
// steps does no harm.
//
// It may import cluster and quantity. Read view.go first (the input) and step.go (the answer), then
// claim.go, finalize.go and drain.go, and repair.go and health.go.
package lifecycle
