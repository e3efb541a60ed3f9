//go:build !race

package testkit

// Raced tells whether the race detector is on, which makes everything several times slower.
// Make test runs once more without it what then does less.
const Raced = false
