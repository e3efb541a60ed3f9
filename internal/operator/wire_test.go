package operator

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// mender is a cloud that knows what is broken; bystander is one that does not.
type (
	bystander struct{ cloud.Provider }
	mender    struct{ cloud.Provider }
)

func (mender) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{ConditionType: "Ready", ConditionStatus: "False", Action: cloud.ReplaceNode}}
}

// bungler is a cloud whose policies are wrong.
type bungler struct{ cloud.Provider }

func (bungler) RepairPolicies() []cloud.RepairPolicy { return []cloud.RepairPolicy{{}} }

func TestRepairNeedsItsGateAndAProviderThatIsAble(t *testing.T) {
	t.Parallel()
	type want struct{ rules, legacy, fails bool }
	for name, c := range map[string]struct {
		gates  string
		legacy bool
		cloud  cloud.Provider
		want   want
	}{
		"by default nothing is repaired":          {featureGatesDefault, false, mender{}, want{}},
		"with the gate it is":                     {"NodeRepair=true", false, mender{}, want{rules: true}},
		"or as it was done before":                {"NodeRepair=true", true, mender{}, want{legacy: true}},
		"not if nobody knows what broken means":   {"NodeRepair=true", false, bystander{}, want{fails: true}},
		"not if what broken means makes no sense": {"NodeRepair=true", false, bungler{}, want{fails: true}},
		"not if the gate is closed":               {"NodeRepair=false", true, mender{}, want{}},
		"gates that cannot be read open nothing":  {"NodeRepair", false, mender{}, want{}},
	} {
		p := &Parts{Settings: &Settings{FeatureGates: c.gates, LegacyNodeRepair: c.legacy}, Cloud: c.cloud}
		rules, err := p.repairRules()
		if got := (want{rules != nil, len(p.legacyPolicies()) > 0, err != nil}); got != c.want {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, c.want)
		}
	}
}
