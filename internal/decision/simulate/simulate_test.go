package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// answer writes a scenario to a file and answers it.
func answer(t *testing.T, text string) (*scenario.Scenario, *Answer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Scenario(path, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Run(c, Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// TestLabelsThatTypesLack: only the dear type has the label, the cheap one says that it
// has not, so that is the one for a pod that asks for it, and no other.
func TestLabelsThatTypesLack(t *testing.T) {
	t.Parallel()
	s, a := answer(t, `{"format": "kscen/1", "name": "lack",
"instanceTypes": [
 {"name": "plain", "cpu": 4000, "mem": 8192, "pods": 20, "reqs": [{"key": "gpu", "op": "DoesNotExist"}], "offerings": [{"zone": "a", "ct": "spot", "price": 0.1}]},
 {"name": "gpu", "cpu": 4000, "mem": 8192, "pods": 20, "reqs": [{"key": "gpu", "op": "In", "values": ["l4"]}], "offerings": [{"zone": "a", "ct": "spot", "price": 0.9}]}],
"nodePools": [{"name": "default"}],
"podGroups": [
 {"name": "infer", "n": 1, "cpu": 3000, "mem": 100, "nodeSelector": {"gpu": "l4"}},
 {"name": "web", "n": 1, "cpu": 3000, "mem": 100},
 {"name": "odd", "n": 1, "cpu": 1, "mem": 1, "nodeSelector": {"nobody": "has-it"}}]}`)
	var b strings.Builder
	if err := a.Print(&b, Table); err != nil {
		t.Fatal(err)
	}
	if r := scenario.Check(s, a.File); len(r.Violations) > 0 || r.WronglyRefused > 0 || a.Refused() != 1 || r.PricePerHour != 1.0 {
		t.Errorf("%+v for\n%s", r, b.String())
	}
	for _, want := range []string{"2 nodes would be launched for 2 pods, at 1.0000 $/h", "1 pod of odd: pool default: no instance type has nobody In [has-it]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestSpreadIgnoresZonesOfOthers: the pods of front may go to zone b only, so the zone
// that holds the pods of back does not limit how many of them may be there.
func TestSpreadIgnoresZonesOfOthers(t *testing.T) {
	t.Parallel()
	s, a := answer(t, `{"format": "kscen/1", "name": "zones",
"instanceTypes": [{"name": "m", "cpu": 4000, "mem": 8192, "pods": 20, "offerings": [{"zone": "a", "ct": "spot", "price": 0.1}, {"zone": "b", "ct": "spot", "price": 0.1}]}],
"nodePools": [{"name": "default"}],
"podGroups": [
 {"name": "back", "n": 1, "cpu": 3000, "mem": 100, "labels": {"app": "x"}, "nodeSelector": {"topology.kubernetes.io/zone": "a"}},
 {"name": "front", "n": 4, "cpu": 2000, "mem": 100, "labels": {"app": "x"}, "nodeSelector": {"topology.kubernetes.io/zone": "b"},
  "spread": [{"key": "topology.kubernetes.io/zone", "maxSkew": 1, "matchLabels": {"app": "x"}}]}]}`)
	if r := scenario.Check(s, a.File); len(r.Violations) > 0 || r.WronglyRefused > 0 || a.Refused() > 0 {
		t.Errorf("%d refused, %+v", a.Refused(), r)
	}
}
