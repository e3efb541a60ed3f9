// Package lifecycle decides what happens next to one claim (Next), and to one node that
// is being removed (Drain). Both look at one instant and answer with one step: what to
// do now, what to write down, and what is waited for until when.
//
// A step is small enough that after it, done or lost, looking again gives the right next
// one. Nothing is remembered between looks except by the objects themselves and by the
// cloud, which is why a crash between any two steps does no harm.
//
// Read view.go (what is looked at), then claim.go, finalize.go and drain.go.
package lifecycle
