package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/multi"
)

// named is a cloud whose kind of node class has its name.
type named struct {
	cloud.Provider
	name string
}

func (n named) Name() string               { return n.name }
func (named) Vocabulary() cloud.Vocabulary { return cloud.Vocabulary{} }
func (n named) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "test", Kind: n.name}}
}

// mender is a cloud that knows what is broken; bystander is one that does not.
type (
	bystander struct{ named }
	mender    struct{ named }
)

func (mender) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{ConditionType: "Ready", ConditionStatus: "False", Action: cloud.ReplaceNode}}
}

// bungler is a cloud whose policies are wrong.
type bungler struct{ named }

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
		if got := (want{rules != nil, len(p.legacyPolicies(c.cloud)) > 0, err != nil}); got != c.want {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, c.want)
		}
	}
}

// TestRepairRulesAreThoseOfTheNodesProvider has two providers, one of which knows of no broken node.
func TestRepairRulesAreThoseOfTheNodesProvider(t *testing.T) {
	t.Parallel()
	both, err := multi.New(mender{named{name: "mended"}}, bystander{named{name: "watched"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &Parts{Settings: &Settings{FeatureGates: "NodeRepair=true"}, Cloud: both}
	rules, err := p.repairRules()
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"mended": true, "watched": false, "strange": false} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"test/" + kind: "default"}}}
		if got := rules(node) != nil; got != want {
			t.Errorf("a node of class kind %s has rules: %t, want %t", kind, got, want)
		}
	}
}
