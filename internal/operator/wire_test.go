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
	return []cloud.RepairPolicy{{ConditionType: "Ready", ConditionStatus: "False"}}
}

func TestRepairNeedsItsGateAndAProviderThatIsAble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gates string
		cloud cloud.Provider
		want  int
	}{
		"by default nothing is repaired":         {featureGatesDefault, mender{}, 0},
		"with the gate it is":                    {"NodeRepair=true", mender{}, 1},
		"not if nobody knows what broken means":  {"NodeRepair=true", bystander{}, 0},
		"not if the gate is closed":              {"NodeRepair=false", mender{}, 0},
		"gates that cannot be read open nothing": {"NodeRepair", mender{}, 0},
	} {
		p := &Parts{Settings: &Settings{FeatureGates: c.gates}, Cloud: c.cloud}
		if got := len(p.repairPolicies()); got != c.want {
			t.Errorf("%s: %d policies, want %d", name, got, c.want)
		}
	}
}
