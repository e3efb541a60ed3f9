package catalog_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestRoomIsWhatIsAllocatable compares the two ways of asking for the same.
func TestRoomIsWhatIsAllocatable(t *testing.T) {
	t.Parallel()
	names := []string{quantity.CPU, quantity.Memory, quantity.Pods, "hugepages-2Mi", "hugepages-1Gi", quantity.AttachPrefix + "disk"}
	amounts := rapid.MapOf(rapid.SampledFrom(names), rapid.Int64Range(0, 100))
	rapid.Check(t, func(t *rapid.T) {
		ty := catalog.Type{Capacity: amounts.Draw(t, "capacity"), Overhead: amounts.Draw(t, "overhead")}
		space := quantity.SpaceOf(amounts.Draw(t, "space"))
		if got, want := ty.Room(space), space.Room(ty.Allocatable()); !slices.Equal(got, want) {
			t.Fatalf("%v: room %v, allocatable %v", space, got, want)
		}
	})
}
