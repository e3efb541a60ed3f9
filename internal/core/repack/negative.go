package repack

import (
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// negativeCache remembers for which unplaced pods LaunchFor found nothing, and below which price. Of
// two that have the same index the later is kept.
type negativeCache [4096]struct {
	sum   topology.Sum
	limit float64
}

// covers reports whether nothing was found for these pods below this price or a higher one.
func (v *negativeCache) covers(sum topology.Sum, limit float64) bool {
	e := &v[sum%topology.Sum(len(v))]
	return e.sum == sum && e.limit >= limit
}

// add notes that nothing was found for these pods below this price.
func (v *negativeCache) add(sum topology.Sum, limit float64) {
	e := &v[sum%topology.Sum(len(v))]
	if e.sum != sum || e.limit < limit {
		e.sum, e.limit = sum, limit
	}
}
