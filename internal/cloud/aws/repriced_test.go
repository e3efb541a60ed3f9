package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// TestOverlaysOrderSpotFleets: where NodeOverlays set prices, EC2 does not go by its own, and such
// requests are not in one fleet with others.
func TestOverlaysOrderSpotFleets(t *testing.T) {
	t.Parallel()
	choices := []catalog.Choice{{Type: &catalog.Type{Name: "m5.large"}, Offering: &catalog.Offering{Zone: "a", CapacityType: label.Spot}}}
	keys := map[string]bool{}
	for repriced, want := range map[bool]types.SpotAllocationStrategy{
		false: types.SpotAllocationStrategyPriceCapacityOptimized, true: types.SpotAllocationStrategyCapacityOptimizedPrioritized,
	} {
		s, err := newFleetSpec(&awsv1.EC2NodeClass{}, &cloud.LaunchRequest{Choices: choices, Repriced: repriced})
		if err != nil {
			t.Fatal(err)
		}
		d := &draft{fleetSpec: s, choices: []templatedChoice{{Choice: choices[0]}}}
		if o := d.request(); o.Input.SpotOptions.AllocationStrategy != want {
			t.Errorf("repriced %t: strategy %s, want %s", repriced, o.Input.SpotOptions.AllocationStrategy, want)
		}
		keys[s.key()] = true
	}
	if len(keys) != 2 {
		t.Error("both would be in one fleet")
	}
}
