package simulate

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// TestTable prints answers to scenarios for which there is but one sensible plan. Bound
// and the answer of first-fit-decreasing are given, so that the test is of the printing:
//
//	table [bound=dollars] [first-fit=dollars] [first-fit-refused=pods]
func TestTable(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/table.txt", func(t *testing.T, d *datadriven.TestData) string {
		_, a := answer(t, d.Input)
		var bound, firstFit float64
		refused := len(a.Plan.Refusals)
		d.MaybeScanArgs(t, "bound", &bound)
		d.MaybeScanArgs(t, "first-fit-refused", &refused)
		a.Plan.BoundHourly, a.FirstFit = bound, nil
		if d.MaybeScanArgs(t, "first-fit", &firstFit) {
			a.FirstFit = &plan.Plan{Launches: []plan.Launch{{PriceHourly: firstFit}}, Refusals: make([]plan.Refusal, refused)}
		}
		var b bytes.Buffer
		if err := a.Print(&b, Table); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 81 && !strings.Contains(line, ": pool ") {
				t.Errorf("wider than 80 columns: %s", line)
			}
		}
		return b.String()
	})
}

// TestAskFirstFit: it answers the same case, and the table names its price.
func TestAskFirstFit(t *testing.T) {
	t.Parallel()
	c, err := Scenario("testdata/p2-tiny-cluster.json.gz", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Run(c, Clock{Now: func() time.Time { return time.Unix(0, 0) }, CPU: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	a.AskFirstFit()
	if got := a.FirstFit.PriceHourly(); got < a.Plan.PriceHourly() || len(a.FirstFit.Refusals) > 0 {
		t.Errorf("first fit pays %.4f and refuses %d, the plan pays %.4f", got, len(a.FirstFit.Refusals), a.Plan.PriceHourly())
	}
	var b bytes.Buffer
	if err := a.Print(&b, Table); err != nil || !strings.Contains(b.String(), "first-fit-decreasing would pay "+dollars(a.FirstFit.PriceHourly())) {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
