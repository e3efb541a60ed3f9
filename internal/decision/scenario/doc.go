// Package scenario reads and writes what planners are compared by: kscen/1, a cluster
// with pods that wait and nodes that can be launched, and kplan/1, the answer to it. It
// also judges answers, without knowing how they were found.
//
// It may import the core, but not its solver. Read format.go first (the two files), then
// read.go and snapshot.go (a scenario as the core sees it), answer.go (a plan as a file) and
// check.go (whether it may stand).
package scenario
