package repack

import (
	"github.com/dovetail-sh/dovetail/internal/core/topology"
)

// negativeCache is what LaunchFor found nothing for, and at how much at most. Of two with the same place the later
// is kept.
type negativeCache [4096]struct {
	sum   topology.Sum
	limit float64
}

// covers reports whether nothing was found for as much.
func (v *negativeCache) covers(sum topology.Sum, limit float64) bool {
	e := &v[sum%topology.Sum(len(v))]
	return e.sum == sum && e.limit >= limit
}

func (v *negativeCache) add(sum topology.Sum, limit float64) {
	e := &v[sum%topology.Sum(len(v))]
	if e.sum != sum || e.limit < limit {
		e.sum, e.limit = sum, limit
	}
}
