// Package demo shows what Dovetail does to somebody who has never seen it: it starts a
// real control plane and the autoscaler, applies the manifests of examples/, and prints
// what happens, as it happens. With Exit it is also a test of the whole product.
//
// One goroutine prints: it looks at the cluster several times a second (board.go), takes
// what the controller has logged (feed.go), and writes lines (narrator.go). Read demo.go (what is
// started, and how it ends), acts.go (the story) and stage.go (the wait between two steps).
package demo
