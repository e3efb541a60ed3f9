// Package buffer decides for how many pods a capacity buffer keeps room, and what its conditions say
// about a plan. Where the room is decides core/pack.
//
// Read Size.Chunks, then Share and Provisioning. The package imports the core only.
package buffer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Size is what a buffer says of its size. Each part may be missing.
type Size struct {
	// Replicas is a number of pods. Percentage is a share of Scale, the replicas of the workload that
	// the buffer names. nil: not given.
	Replicas, Percentage, Scale *int64
	// Requests are those of one pod. Limits are for all pods together.
	Requests, Limits quantity.List
}

// Chunks returns for how many pods there must be room: the larger one of number and share, within the
// limits. If there is neither, as many as the limits allow; without a limit that counts, none.
func (s *Size) Chunks() int64 {
	sized, n := false, int64(0)
	if s.Replicas != nil {
		sized, n = true, *s.Replicas
	}
	if s.Percentage != nil && s.Scale != nil {
		sized, n = true, max(n, share(*s.Scale, *s.Percentage))
	}
	limit, limited := s.limit()
	switch {
	case sized && limited:
		n = min(n, limit)
	case limited:
		n = limit
	}
	return max(0, n)
}

// share returns a percentage of a number, rounded up.
func share(of, percentage int64) int64 {
	if of <= 0 || percentage <= 0 {
		return 0
	}
	product := quantity.Mul(of, percentage)
	n := product / 100
	if product%100 > 0 {
		n++
	}
	return n
}

// limit returns how many pods the limits allow; false: no limit is for anything that a pod asks for.
func (s *Size) limit() (most int64, limited bool) {
	most = math.MaxInt64
	for name, limit := range s.Limits {
		if request := s.Requests[name]; request > 0 {
			most, limited = min(most, max(0, limit)/request), true
		}
	}
	return most, limited
}

// A decision takes as long for a chunk as for a pod, so their number is bounded.
const (
	// ChunksMax bounds the chunks of one buffer.
	ChunksMax = 1000
	// ChunksTotal bounds the chunks of all buffers.
	ChunksTotal = 5000
	// BuffersMax bounds how many buffers have any.
	BuffersMax = 500
)

// Wanted is what one buffer asks for.
type Wanted struct {
	Name    string // namespace/name
	Created time.Time
	Chunks  int64
}

// Share returns how many chunks of each buffer are planned, in the same order. Where there are too
// many altogether, the oldest buffers come first.
func Share(wanted []Wanted) []int {
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(wanted[a].Created.Compare(wanted[b].Created), cmp.Compare(wanted[a].Name, wanted[b].Name))
	})
	got, left, buffers := make([]int, len(wanted)), int64(ChunksTotal), 0
	for _, i := range order {
		n := min(wanted[i].Chunks, ChunksMax, left)
		if n <= 0 || buffers == BuffersMax {
			continue
		}
		got[i], left, buffers = int(n), left-n, buffers+1
	}
	return got
}

// Reasons of the condition Provisioning.
const (
	NotReadyForProvisioning = "NotReadyForProvisioning"
	BufferEmpty             = "BufferEmpty"
	RequiresNewCapacity     = "RequiresNewCapacity"
	FitsExistingCapacity    = "FitsExistingCapacity"
)

// Condition is what the condition Provisioning says.
type Condition struct {
	Holds           bool
	Reason, Message string
}

// Unplannable returns the condition of a buffer about which there is nothing to plan: why it is not
// ready, or that it has no chunks. false: a plan decides.
func Unplannable(notReady string, chunks int64) (Condition, bool) {
	switch {
	case notReady != "":
		return Condition{false, NotReadyForProvisioning, "the buffer is not ready: " + notReady}, true
	case chunks == 0:
		return Condition{false, BufferEmpty, "the buffer asks for room for no pod"}, true
	default:
		return Condition{}, false
	}
}

// Provisioning returns the condition of a buffer that asks for so many chunks, after a plan.
func Provisioning(room *plan.BufferRoom, chunks int64) Condition {
	held := room.HeldCount()
	if int64(held) >= chunks {
		return Condition{true, FitsExistingCapacity, fmt.Sprintf("there is room for all %d pods", chunks)}
	}
	message := fmt.Sprintf("there is room for %d of %d pods", held, chunks)
	if room.Launched > 0 {
		message += fmt.Sprintf("; nodes are launched for %d", room.Launched)
	}
	if missing := room.Chunks - held - room.Launched; missing > 0 {
		message += fmt.Sprintf("; there is none for %d: %s", missing, room.Why)
	}
	if over := chunks - int64(room.Chunks); over > 0 {
		message += fmt.Sprintf("; %d are not planned: at most %d pods of one buffer are, %d of all, and %d buffers", over, ChunksMax, ChunksTotal, BuffersMax)
	}
	return Condition{false, RequiresNewCapacity, message}
}
