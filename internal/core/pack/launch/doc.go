// Package launch chooses the nodes to launch for all pods that are left without one.
//
// It divides the pods into shares that may go to the same places (shares.go, merge.go), states
// them as a problem of bin packing for core/cover (launch.go), and turns the answer into
// planned nodes, pod by pod and rule by rule (open.go, exchange.go). Where rules divide pods
// into very many shares, it launches for batches of them (batches.go). Bound proves a price
// that no plan can be below (bound.go). It may import place, model and core/cover.
//
// Read launch.go first.
package launch
