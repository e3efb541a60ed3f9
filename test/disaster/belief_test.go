package disaster

import (
	"flag"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var allBeliefs = flag.Bool("all-beliefs", false, "try all that AWS may do otherwise than is believed, with and without a crash")

// TestBeliefs loses answers to fleets, and crashes, in accounts that do otherwise than is
// believed. When it is over all pods run, each claim has one instance, and no instance is
// without a claim: what EC2 launched twice for one token has been terminated.
func TestBeliefs(t *testing.T) {
	t.Parallel()
	often := map[string]awssim.Beliefs{
		"a repeated token is answered with nothing": {RepeatedToken: awssim.RepeatNothing},
		"a repeated token launches others":          {RepeatedToken: awssim.RepeatOthers},
	}
	rare := map[string]awssim.Beliefs{
		"a repeated token is a mismatch":                    {RepeatedToken: awssim.RepeatMismatch},
		"a repeated token is refused":                       {RepeatedToken: awssim.RepeatRefused},
		"a token is forgotten after ten seconds":            {TokenKept: 10 * time.Second},
		"refusals are forgotten":                            {RefusalsForgotten: true},
		"equals are chosen by capacity":                     {EqualByCapacity: true},
		"a missing launch template is an error of its kind": {TemplateErrorInside: true},
		"a dry run looks at nothing":                        {BlindDryRun: true},
		"new instances are shown now and then":              {Flickers: true},
		"all families have one quota":                       {OneQuota: true},
		"EC2 does not say the bandwidth":                    {BandwidthUnsaid: true},
		"nodes have less memory, or more":                   {MemoryError: 0.02},
		"kubelets keep memory for more pods":                {MoreInterfaces: 1},
		"all is otherwise":                                  contrary(),
	}
	if *allBeliefs {
		maps.Copy(often, rare)
	}
	for name, is := range often {
		if (testkit.Raced || testing.Short()) && is.RepeatedToken != awssim.RepeatOthers {
			continue
		}
		for _, crash := range []bool{false, true} {
			if !crash && !*allBeliefs {
				continue
			}
			t.Run(fmt.Sprintf("%s, crash %t", name, crash), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					d := newDisaster(t, 1)
					defer d.end()
					d.sim.Believe(is)
					d.until(5*time.Minute, d.poolReady)
					d.load(20)
					d.until(10*time.Minute, func() string { return d.allRun(20) })
					d.inject(
						awssim.Fault{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 2},
						awssim.Fault{Kind: awssim.FaultInconsistent, Delay: during(30 * time.Second)},
					)
					if is.TemplateErrorInside {
						d.inject(awssim.Fault{Kind: awssim.FaultDeleteTemplates, Target: "*"})
					}
					d.load(45)
					time.Sleep(8 * time.Second)
					if crash {
						d.kill()
						d.begin()
					}
					time.Sleep(2 * time.Minute)
					d.sim.Clear()
					d.settled(45, is)
					d.shows("ec2:CreateFleet cut")
				})
			})
		}
	}
}

// contrary are accounts in which all is otherwise than is believed.
func contrary() awssim.Beliefs {
	return awssim.Beliefs{
		RepeatedToken: awssim.RepeatOthers, TokenKept: 10 * time.Second, RefusalsForgotten: true, EqualByCapacity: true,
		FleetBodyMax: 100 << 10, TemplateErrorInside: true, BlindDryRun: true, GroupIDMalformed: true, NoReservedFleets: true,
		ReplaceInterfaces: true, BandwidthUnsaid: true, MoreInterfaces: 1, OneQuota: true, Flickers: true, MemoryError: 0.02,
	}
}

// settled checks what must be when the faults are over, and where EC2 may launch twice for one
// token that nothing of it is left.
func (d *disaster) settled(pods int, is awssim.Beliefs) {
	d.t.Helper()
	if is.RepeatedToken != awssim.RepeatOthers && is.TokenKept == 0 {
		d.aftermath(pods)
		return
	}
	d.until(20*time.Minute, func() string { return d.allRun(pods) })
	d.until(20*time.Minute, d.agree)
	for _, line := range d.double {
		d.t.Error(line)
	}
}
