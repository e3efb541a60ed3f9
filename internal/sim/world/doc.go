// Package world runs the whole controller under one seed, with disasters: the loops,
// mirror and apply of production, wired as production wires them, in one goroutine on a
// virtual clock, against the simulated cluster of internal/sim/cluster and a cloud that fails. Checkers that
// share no code with the product judge every step.
//
// What happens is a heap of events; whatever the seed decides, it decides through one
// random source that is asked in the order of events. So one seed is one history.
//
// Read world.go (the heap and a run), then watch.go, write.go, queue.go and process.go (how production is
// driven), then cloud.go, chaos.go and tenant.go (what goes wrong); and at last checks.go, which judges,
// at the end by rest.go.
package world
