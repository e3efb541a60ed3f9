// Package disaster runs the whole product on a virtual clock against a simulated AWS
// account that fails: everything that `dovetail controller` runs, wired as it wires it, and
// the real SDK, over an API server in memory. All of it lives in one synctest bubble, so
// that an hour takes as long as there is work in it.
//
// Read server_test.go (the API server), client_test.go (how the product reaches it),
// cluster_test.go (what stands in for kube-scheduler, kubelets and workload controllers),
// harness_test.go (the product and the account), and then the disasters.
package disaster
