//go:build race

package disaster

// raced: the race detector is on, and everything takes many times as long.
const raced = true
