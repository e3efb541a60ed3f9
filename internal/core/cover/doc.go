// Package cover packs classes of identical items into bins at a price near a proven lower
// bound. It knows nothing of pods and nodes: an item is a vector of sizes, a bin a
// vector of capacities with a price, and a class says in which bins its items may be.
//
// The one idea: what a class is worth comes first, where it goes follows. A small linear
// program prices the classes so that no bin can hold more value than it costs; the sum of
// all values is then a bound that no packing can beat, and a bin that is filled with as
// much value as it costs could not have been used better. Bins are opened by value for money,
// the prices of items that came out dear are raised, and it is done again.
//
// Everything is counted in work, never in time, and the same problem gives the same answer. The
// package imports nothing but the standard library.
//
// Read problem.go (the question and the answer) first, then solve.go (the order of
// things), compile.go (what is left of the problem once it is reduced), price.go and
// cuts.go (the bound), fill.go and greedy.go (filling and opening bins), correct.go (better prices) and
// improve.go (mending). columns.go and knapsack.go are for problems with few classes, prove.go
// and states.go for bounds that are worked out to the last,
// firstfit.go is what no answer may be dearer than, simplex.go is linear programming.
package cover
