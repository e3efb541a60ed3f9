// Package e2e tests the product as its users run it: bin/dovetail as a process of its own
// against a real control plane, so that a SIGKILL is one and an exit status is one. Build
// the binaries first: make build.
//
// harness_test.go has the process under test and what the tests read of the cluster;
// chaos_test.go kills it again and again; crash_test.go does so on a simulated AWS account,
// with witness_test.go judging from outside; bad_input_test.go gives it what it cannot use
// and takes its API server away; moto_test.go runs it on an emulator of AWS that others have
// written; journal_test.go asks it before and after; metrics_test.go compares
// what it shows with Karpenter's metrics and records it; bench_test.go measures a scale-up.
package e2e
