// Package doctor says whether a cluster and an account have what the controller needs,
// before it is installed: each check with what it found and what to do about it. It changes
// nothing. The account's checks are the provider's (internal/cloud/aws/checkup); those of the
// cluster are in cluster.go, and report.go shows both.
package doctor

import "github.com/dovetail-sh/dovetail/internal/cloud/aws/checkup"

// Finding is what one check has found.
type Finding = checkup.Finding

// Failures returns how many checks have failed.
func Failures(found []Finding) int {
	n := 0
	for i := range found {
		if found[i].Status == checkup.Failed {
			n++
		}
	}
	return n
}
