// Package operator is the process as a library: settings in, a running autoscaler out.
// main, the demo and the tests all start it the same way. It may import every package but the
// command line and the demo.
//
// Read settings.go (what may be set), run.go (the order of a start, and what heals
// without a restart), wire.go (which loop gets what) and serve.go (metrics, health).
package operator
