package lifecycle

const (
	// outcomesKept is how many of a pool's last launches decide whether it is healthy.
	outcomesKept = 4
	// failuresLeast of them make it unhealthy.
	failuresLeast = 2
)

// Health is how the last launches of a pool ended: whether their Nodes registered. The
// zero Health knows of none. It only informs; nothing is decided by it.
type Health struct {
	failed [outcomesKept]bool // a ring; failed[next] is the oldest
	next   int
	status Status
}

// HealthFrom returns what a pool's condition says about the time before a restart.
func HealthFrom(status Status) Health {
	var h Health
	switch status {
	case True:
		return h.After(true)
	case False:
		return h.After(false).After(false)
	default:
		return h
	}
}

// After returns the health after one more launch: registered, or given up.
func (h Health) After(registered bool) Health {
	h.failed[h.next] = !registered
	h.next = (h.next + 1) % outcomesKept
	healthy := h.failures() < failuresLeast
	// One launch changes the status only to what it speaks for: a failure among
	// successes does not make a pool healthy, nor a success among failures unhealthy.
	switch {
	case registered && healthy:
		h.status = True
	case !registered && !healthy:
		h.status = False
	}
	return h
}

// Status returns True for healthy, False for unhealthy, Unknown before anything speaks
// for either.
func (h Health) Status() Status {
	if h.status == "" {
		return Unknown
	}
	return h.status
}

func (h Health) failures() int {
	n := 0
	for _, failed := range h.failed {
		if failed {
			n++
		}
	}
	return n
}
