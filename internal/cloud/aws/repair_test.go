package aws

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

func TestErrorsOfAcceleratorsDiffer(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	for _, c := range []struct {
		reason  string
		reboots bool
		due     time.Duration
		reboot  bool
	}{
		{"NvidiaXID48Error", true, 10 * time.Minute, true},
		{"NvidiaXID48Error", false, 10 * time.Minute, false},
		{"NvidiaXID79Error", true, 10 * time.Minute, false},
		{"NvidiaNVLinkError", true, 30 * time.Minute, false},
	} {
		rules, err := cloud.NewRepairRules(repairPolicies(c.reboots))
		if err != nil {
			t.Fatal(err)
		}
		got := rules.Ailments([]lifecycle.NodeCondition{{Type: "AcceleratedHardwareReady", Status: "False", Reason: c.reason, Since: start}}, start)
		if len(got) != 1 || got[0].Reboot != c.reboot || got[0].Due.Sub(start) != c.due {
			t.Errorf("%s, reboots %t: %+v, want due after %s, reboot %t", c.reason, c.reboots, got, c.due, c.reboot)
		}
	}
	if got := len((&Provider{}).LegacyRepairPolicies()); got != 7 {
		t.Errorf("%d policies as Karpenter 1.14 has them, want 7", got)
	}
}
