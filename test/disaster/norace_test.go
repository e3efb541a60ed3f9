//go:build !race

package disaster

const raced = false
