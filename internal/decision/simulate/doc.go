// Package simulate answers "what would be launched for this, at what price, and why" from
// files, with the solver that the controller uses. Nothing is asked of a cluster or a
// cloud.
//
// It may import the core, the mirror, translate and the providers of instance types. Read
// simulate.go first (the question), then table.go (the answer as a person reads it).
package simulate
