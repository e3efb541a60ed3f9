// Package disaster runs the whole product on a virtual clock against a simulated AWS
// account that fails: everything that `dovetail controller` runs, wired as it wires it, and
// the real SDK, over the simulated cluster of internal/sim/cluster. All of it lives in one synctest bubble, so
// that an hour takes as long as there is work in it.
//
// Read cluster_test.go (the simulated cluster of internal/sim/cluster on the bubble's clock), client_test.go
// (how the product reaches it), harness_test.go (the product and the account), and then the disasters.
package disaster
