package cluster

import (
	"strconv"
	"time"
)

// Buffer is a CapacityBuffer in force: there must be room for so many pods that do not exist yet.
// The room for one of them is a chunk. Any pod that exists may take it at any time.
type Buffer struct {
	Namespace, Name, UID string
	// Chunks is for how many pods there must be room.
	Chunks int
	// Constraints are those of each of these pods.
	Constraints *Constraints
	// LaunchAfter is until when no node is launched for the buffer; zero or past: one may be.
	LaunchAfter time.Time
}

// String returns namespace/name.
func (b *Buffer) String() string { return b.Namespace + "/" + b.Name }

// Chunk returns the name of a chunk; the first is 1.
func (b *Buffer) Chunk(i int) PodRef {
	n := strconv.Itoa(i)
	return PodRef{Namespace: b.Namespace, Name: "capacity-buffer-" + b.Name + "-" + n, UID: b.UID + "-" + n}
}
