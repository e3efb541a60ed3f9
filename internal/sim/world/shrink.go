package world

import (
	"regexp"
	"time"
)

// shortest is the least storm that shrinking tries.
const shortest = 5 * time.Minute

// Shrink looks for less that breaks the same rule: fewer kinds of faults, a shorter storm.
// It returns the options that are left and what comes of them.
func Shrink(seed uint64, opts Options) (Options, Result) {
	least := Run(seed, opts)
	kind := kindOfViolation(least.Violation)
	try := func(o Options) bool {
		r := Run(seed, o)
		if kindOfViolation(r.Violation) != kind {
			return false
		}
		opts, least = o, r
		return true
	}
	for _, f := range Faults() {
		fewer := opts
		fewer.Without = append(append([]Fault(nil), opts.Without...), f)
		try(fewer)
	}
	for opts.Stormy > shortest {
		shorter := opts
		shorter.Stormy = opts.Stormy / 2
		if !try(shorter) {
			break
		}
	}
	return opts, least
}

// kindOfViolation returns a violation without its time, names and numbers.
func kindOfViolation(said string) string {
	said = regexp.MustCompile(`^.*? after [0-9a-z.]+: `).ReplaceAllString(said, "")
	return regexp.MustCompile(`[a-z]+-[-0-9a-z:/.]+|[0-9a-z.]*[0-9][0-9a-z.%]*`).ReplaceAllString(said, "_")
}

// Faults returns all there are, and what else seeds draw.
func Faults() (faults []Fault) {
	for _, some := range [][]Fault{writeFaults, launchFaults, joinFaults, volumeFaults, thinkFaults} {
		faults = append(faults, some...)
	}
	for _, t := range timed {
		faults = append(faults, t.fault)
	}
	return append(faults, AbsurdPods, HeavyPods, StaticPools, Buffers, Gangs, Reboots, RebootRefused, RebootError, RebootLost, RebootCrash, NeverBoots,
		LateIDs, LateFailures, StuckLaunches, LateNotices)
}
