// Package cloudtest is the suite that every provider passes: what internal/cloud asks
// of a Provider, as tests that can fail. A provider's own tests call Run with a Harness
// over a cloud, real or fake.
//
// The suite launches instances of its own and ends them; it does not mind others. Read
// harness.go for what a provider must supply, and t.go for what a test may do, then suite.go,
// which lists the tests of launch.go, failure.go, end.go, accepted.go, drift.go and reboot.go.
package cloudtest
