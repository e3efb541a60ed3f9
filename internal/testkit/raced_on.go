//go:build race

package testkit

// Raced reports whether the race detector is on, which makes everything several times slower.
// Long tests do less with it; make test-sim runs them in full, without it.
const Raced = true
