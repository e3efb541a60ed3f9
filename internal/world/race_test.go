//go:build race

package world

// raced: the race detector makes everything ten times slower, so less is played.
const raced = true
