package cloud

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

func TestRepairPoliciesThatAreWrongAreAllNamed(t *testing.T) {
	t.Parallel()
	negative := -time.Second
	good := RepairPolicy{ConditionType: "Ready", ConditionStatus: "False", Action: ReplaceNode}
	for name, c := range map[string]struct {
		change func(*RepairPolicy)
		want   []string
	}{
		"a good one":              {func(*RepairPolicy) {}, nil},
		"no type":                 {func(p *RepairPolicy) { p.ConditionType = "" }, []string{"condition type is empty"}},
		"a status":                {func(p *RepairPolicy) { p.ConditionStatus = "Maybe" }, []string{`status is "Maybe"`}},
		"a toleration":            {func(p *RepairPolicy) { p.Toleration = negative }, []string{"toleration is -1s"}},
		"a grace period":          {func(p *RepairPolicy) { p.TerminationGracePeriod = &negative }, []string{"grace period is negative"}},
		"a low priority":          {func(p *RepairPolicy) { p.Priority = -1 }, []string{"priority is -1"}},
		"a high priority":         {func(p *RepairPolicy) { p.Priority = 101 }, []string{"priority is 101"}},
		"an action":               {func(p *RepairPolicy) { p.Action = "Pray" }, []string{`action is "Pray"`}},
		"a regexp":                {func(p *RepairPolicy) { p.ReasonRegex = "(" }, []string{"error parsing regexp", "0 repair policies have no reason"}},
		"no fallback":             {func(p *RepairPolicy) { p.ReasonRegex = "x" }, []string{"0 repair policies have no reason"}},
		"a fallback that reboots": {func(p *RepairPolicy) { p.Action = RebootNode }, []string{"its action must be ReplaceNode"}},
		"several things at once": {
			func(p *RepairPolicy) { p.ConditionType, p.Priority, p.Action = "", 200, "" },
			[]string{"condition type is empty", "priority is 200", `action is ""`},
		},
	} {
		p := good
		c.change(&p)
		_, err := NewRepairRules([]RepairPolicy{p})
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", name, err, want)
			}
		}
	}
	for _, n := range []int{0, 2} {
		policies := make([]RepairPolicy, n)
		for i := range policies {
			policies[i] = good
		}
		if _, err := NewRepairRules(policies); err == nil {
			t.Errorf("%d policies without a reason are taken", n)
		}
	}
}

func TestEveryPolicyWhoseReasonMatchesSpeaks(t *testing.T) {
	t.Parallel()
	bound := time.Minute
	rules, err := NewRepairRules([]RepairPolicy{
		{ConditionType: "GPU", ConditionStatus: "False", ReasonRegex: "XID4[68]", Toleration: 10 * time.Minute, Action: RebootNode, Priority: 70},
		{ConditionType: "GPU", ConditionStatus: "False", ReasonRegex: "XID4", Toleration: 20 * time.Minute, Action: ReplaceNode, Priority: 5, TerminationGracePeriod: &bound},
		{ConditionType: "Ready", ConditionStatus: "False", ReasonRegex: ".*", Toleration: 30 * time.Minute, Action: ReplaceNode},
		{ConditionType: "Disk", ConditionStatus: "True", Toleration: time.Minute, Action: ReplaceNode, Priority: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0).UTC()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	is := func(kind, status, reason string) lifecycle.NodeCondition {
		return lifecycle.NodeCondition{Type: kind, Status: status, Reason: reason, Since: start}
	}
	reboot := cluster.Ailment{Condition: "GPU", Status: "False", Reason: "NvidiaXID46Error", Due: at(10 * time.Minute), Rank: 2, Reboot: true}
	replace := cluster.Ailment{Condition: "GPU", Status: "False", Reason: "NvidiaXID46Error", Due: at(20 * time.Minute), Rank: 1, Bound: cluster.Bound{IsSet: true, Within: bound}}
	for name, c := range map[string]struct {
		condition lifecycle.NodeCondition
		notBefore time.Time
		want      []cluster.Ailment
	}{
		"two policies":                    {is("GPU", "False", "NvidiaXID46Error"), start, []cluster.Ailment{reboot, replace}},
		"none, so the fallback of others": {is("GPU", "False", "Melted"), start, []cluster.Ailment{{Condition: "GPU", Status: "False", Reason: "Melted", Due: at(time.Minute), Rank: 1}}},
		"the fallback of its own":         {is("Disk", "True", ""), start, []cluster.Ailment{{Condition: "Disk", Status: "True", Due: at(time.Minute), Rank: 1}}},
		"any reason":                      {is("Ready", "False", ""), start, []cluster.Ailment{{Condition: "Ready", Status: "False", Due: at(30 * time.Minute)}}},
		"another status":                  {is("GPU", "Unknown", "XID46"), start, nil},
		"a condition that nobody knows":   {is("Tired", "True", ""), start, nil},
		"since the Node is there":         {is("Disk", "True", ""), at(time.Hour), []cluster.Ailment{{Condition: "Disk", Status: "True", Due: at(61 * time.Minute), Rank: 1}}},
	} {
		if diff := cmp.Diff(c.want, rules.Ailments([]lifecycle.NodeCondition{c.condition}, c.notBefore)); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", name, diff)
		}
	}
}
