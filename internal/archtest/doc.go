// Package archtest holds tests of the source tree itself: which package may import which, that
// the core stays pure, that files stay readable, that ARCHITECTURE.md names the rooms that there
// are, that documents link to what is there, and that retired words do not come back.
//
// A new room gets a line in floors (floors_test.go) and one in ARCHITECTURE.md.
package archtest
