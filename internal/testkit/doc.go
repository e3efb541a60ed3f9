// Package testkit holds what the product's tests share: a real control plane for
// one test (Cluster), and a bounded wait on a condition (Eventually).
//
// A test that needs an API server asks for one of its own and shares it with nobody,
// so that such tests run in parallel. The control plane is the devcluster binary, run
// as a subprocess: nothing of Kubernetes' own code is linked into the product's tests.
// Tests that need it are skipped with -short and where it is not built; see Binary.
package testkit
