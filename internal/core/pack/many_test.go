package pack_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/testkit/story"
)

// TestManyPodsOfWhichOneIsRefused has more pods than a second solver is kept ready for: where
// one is refused, first-fit begins anew, and must find no better plan than the one returned.
func TestManyPodsOfWhichOneIsRefused(t *testing.T) {
	t.Parallel()
	const pods = 3100
	snap, err := story.Parse(`
type four cpu=4 memory=8Gi price=0.20 zones=a,b
type eight cpu=8 memory=16Gi price=0.30 zones=a
pool general
pod web cpu=1 count=3100 app=web spread=zone:1
pod huge cpu=100
`)
	if err != nil {
		t.Fatal(err)
	}
	plan, firstFit := pack.Solve(snap, pack.Options{}), pack.Solve(snap, pack.Options{FirstFitOnly: true})
	if len(plan.Refusals) != 1 || plan.Refusals[0].Pod.Name != "huge" {
		t.Fatalf("refused are %v, huge alone was to be expected", plan.Refusals)
	}
	placed := 0
	for i := range plan.Launches {
		placed += len(plan.Launches[i].Pods)
	}
	if placed != pods {
		t.Errorf("%d pods are placed, of %d", placed, pods)
	}
	if got, most := plan.PriceHourly(), firstFit.PriceHourly(); got > most+1e-9 {
		t.Errorf("the plan costs %v, first-fit would pay %v", got, most)
	}
	if plan.BoundHourly <= 0 || plan.BoundHourly > plan.PriceHourly() {
		t.Errorf("the bound is %v of a plan that costs %v", plan.BoundHourly, plan.PriceHourly())
	}
}
