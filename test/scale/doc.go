// Package scale measures the controller with a large cluster: 5,000 nodes and 100,000 pods, unless flags say
// otherwise. There are no kubelets and no etcd. BenchmarkController runs bin/dovetail as a process of its own
// against an API server in memory, over HTTP/2 and TLS, so that what is measured is the controller alone.
// BenchmarkDecisions measures single steps in this process: a snapshot, a plan, a search.
//
// Read fleet_test.go (the cluster), server_test.go and wire_test.go (the API server), process_test.go (the
// controller and what it used), and then the benchmarks in controller_test.go and decisions_test.go.
package scale
