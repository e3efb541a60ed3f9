package lifecycle

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

func TestSizeOf(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	size := func(milli, bytes int64) int {
		return SizeOf(quantity.List{quantity.CPU: milli, quantity.Memory: bytes})
	}
	for name, c := range map[string]struct{ smaller, larger, by int }{
		"whoever asks for nothing has a size": {0, size(0, 0), 1},
		"half a cpu, and one":                 {size(500, 0), size(1000, 0), 1},
		"a cpu, and as much as its 4 GiB":     {size(1000, 0), size(0, 4*gib), 0},
		"four cpus, and as much again":        {size(4000, 0), size(4000, 16*gib), 1},
		"more than can be counted is large":   {size(0, 4*gib), size(0, quantity.Max), 19},
		"a milli-cpu counts as none":          {size(1000, 0), size(1001, 0), 0},
	} {
		if got := c.larger - c.smaller; got != c.by {
			t.Errorf("%s: sizes %d and %d, want %d more", name, c.smaller, c.larger, c.by)
		}
	}
}
