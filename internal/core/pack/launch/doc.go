// Package launch chooses the nodes to launch for all pods that are left without one.
//
// It divides the pods into shares that may go to the same offerings (share.go, shares.go,
// merge.go), states them as a problem of bin packing for core/cover (problem.go, exclusive.go),
// and turns the answer into planned nodes, pod by pod and rule by rule (opening.go, open.go,
// exchange.go). Where rules divide pods into very many shares, it launches for batches of them
// (batches.go). Bound proves a price that no plan can be below (bound.go). It may import place,
// model and core/cover.
//
// Read launch.go first, then launcher.go, which has the state that all of these share.
package launch
