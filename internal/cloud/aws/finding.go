package aws

import (
	"time"
)

const (
	// How long what was found for a class is valid.
	subnetsAgain = time.Minute
	groupsAgain  = time.Minute
	imagesAgain  = time.Minute
	// sooner is by how much a cached answer is younger than the time after which it is looked up
	// again, so that the look-up does not find it still valid.
	sooner            = 10 * time.Second
	reservationsAgain = time.Minute
	placementAgain    = 5 * time.Minute
	validationAgain   = 10 * time.Minute
	missingAgain      = time.Minute
)

// finding is what was found in the account for one condition of a class.
type finding struct {
	// reason and message say what is missing; empty: nothing is.
	reason, message string
	// unknown: it cannot be said yet.
	unknown bool
	// inconclusive: it could not be found out, as message says. The condition stays as it was.
	inconclusive bool
	// again is when to look again; 0: when something changes.
	again time.Duration
}
