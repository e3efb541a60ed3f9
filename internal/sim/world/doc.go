// Package world runs the whole controller under one seed, with disasters: the loops,
// mirror and apply of production, wired as production wires them, in one goroutine on a
// virtual clock, against the simulated cluster of internal/sim/cluster and a cloud that fails. Checkers that
// share no code with the product judge every step.
//
// What happens is a heap of events; whatever the seed decides, it decides through one
// random source that is asked in the order of events. So one seed is one history.
//
// Read types.go and world.go (the heap of events), and run.go (a run); then process.go, start.go, watch.go,
// write.go and queue.go (how production is driven), faults.go, chaos.go, load.go, tenant.go, instances.go and
// cloud.go (what it lives through); static.go, buffers.go, gangs.go and reboots.go with their checks (what only some worlds have: see
// beside.go); and at last checks.go, which judges, at the end by rest.go.
package world
