package aws

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// offered is a request for three types in two zones.
func offered(capacityType string) *fleetRequest {
	o := &fleetRequest{CapacityType: capacityType, Group: "pg-1", Input: &ec2.CreateFleetInput{}}
	if capacityType == label.Reserved {
		o.Reservations = map[string]string{"c5.large/b": "cr-1"}
	}
	config := types.FleetLaunchTemplateConfigRequest{}
	for _, name := range []string{"m5.large", "c5.large", "p3.2xlarge"} {
		for _, zone := range []string{"a", "b"} {
			config.Overrides = append(config.Overrides, types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(name), AvailabilityZone: aws.String(zone)})
		}
	}
	o.Input.LaunchTemplateConfigs = []types.FleetLaunchTemplateConfigRequest{config}
	return o
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	at := func(capacityType string, places ...string) []catalog.Place {
		var out []catalog.Place
		for _, p := range places {
			out = append(out, catalog.Place{Type: p[:len(p)-2], Zone: p[len(p)-1:], CapacityType: capacityType})
		}
		return out
	}
	everywhere := []string{"c5.large/a", "c5.large/b", "m5.large/a", "m5.large/b", "p3.2xlarge/a", "p3.2xlarge/b"}
	for name, c := range map[string]struct {
		capacityType string
		refusals     []refusal
		want         cloud.Failure
	}{
		"a pool without instances is short by itself": {
			label.OnDemand,
			[]refusal{{Code: "InsufficientInstanceCapacity", Type: "m5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity", Short: at(label.OnDemand, "m5.large/a")},
		},
		"a vCPU quota is short for all types that count against it": {
			label.OnDemand,
			[]refusal{{Code: "VcpuLimitExceeded", Type: "m5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "VCPULimitExceeded", Keep: quotaKept, Short: at(label.OnDemand, everywhere[:4]...)},
		},
		"a zone in which a placement group has as many as it takes is short, whatever the code": {
			label.OnDemand,
			[]refusal{{Code: "InvalidRequest", Message: "You have reached the limit of instances in this spread placement group", Type: "m5.large", Zone: "b"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "LaunchFailed", Short: []catalog.Place{
				{Type: "c5.large", Zone: "b", CapacityType: label.OnDemand, Group: "pg-1"},
				{Type: "m5.large", Zone: "b", CapacityType: label.OnDemand, Group: "pg-1"},
				{Type: "p3.2xlarge", Zone: "b", CapacityType: label.OnDemand, Group: "pg-1"},
			}},
		},
		"so is that of spot": {
			label.Spot,
			[]refusal{{Code: "MaxSpotInstanceCountExceeded", Type: "p3.2xlarge", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "SpotQuotaExceeded", Keep: quotaKept, Short: at(label.Spot, everywhere[4:]...)},
		},
		"without its role there is no spot at all": {
			label.Spot,
			[]refusal{{Code: "AuthFailure.ServiceLinkedRoleCreationNotPermitted"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "SpotSLRCreationFailed", Keep: roleKept, Short: at(label.Spot, everywhere...)},
		},
		"a zone whose best subnet is full is short": {
			label.OnDemand,
			[]refusal{{Code: "InsufficientFreeAddressesInSubnet", Type: "m5.large", Zone: "b"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientFreeAddressesInSubnet", Short: at(label.OnDemand, "c5.large/b", "m5.large/b", "p3.2xlarge/b")},
		},
		"the same twice is once": {
			label.OnDemand,
			[]refusal{{Code: "UnfulfillableCapacity", Type: "c5.large", Zone: "a"}, {Code: "UnfulfillableCapacity", Type: "c5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity", Short: at(label.OnDemand, "c5.large/a")},
		},
		"a spot price above the highest is a shortage": {
			label.Spot,
			[]refusal{{Code: "SpotMaxPriceTooLow", Type: "c5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity", Short: at(label.Spot, "c5.large/a")},
		},
		"a reservation that is being reclaimed is a shortage": {
			label.Reserved,
			[]refusal{{Code: "InvalidCapacityReservationState.Unavailable", Type: "c5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity", Short: at(label.Reserved, "c5.large/a")},
		},
		"a reservation that is used up is no shortage: what is left of it is counted": {
			label.Reserved,
			[]refusal{{Code: "ReservationCapacityExceeded", Type: "c5.large", Zone: "a"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity"},
		},
		"so is another refusal of reserved instances, of the reservation alone": {
			label.Reserved,
			[]refusal{{Code: "InsufficientInstanceCapacity", Type: "c5.large", Zone: "b"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "InsufficientCapacity", Short: []catalog.Place{{Type: "c5.large", Zone: "b", CapacityType: label.Reserved, Reservation: "cr-1"}}},
		},
		"a full placement group is no shortage of the reservation": {
			label.Reserved,
			[]refusal{{Code: "InvalidRequest", Message: "You have reached the limit of instances in this spread placement group", Type: "c5.large", Zone: "b"}},
			cloud.Failure{Kind: cloud.NoCapacity, Reason: "LaunchFailed", Short: []catalog.Place{
				{Type: "c5.large", Zone: "b", CapacityType: label.Reserved, Group: "pg-1"},
				{Type: "m5.large", Zone: "b", CapacityType: label.Reserved, Group: "pg-1"},
				{Type: "p3.2xlarge", Zone: "b", CapacityType: label.Reserved, Group: "pg-1"},
			}},
		},
		"one refusal of another kind is not about capacity": {
			label.OnDemand,
			[]refusal{{Code: "InsufficientInstanceCapacity", Type: "c5.large", Zone: "a"}, {Code: "UnauthorizedOperation", Message: "no"}},
			cloud.Failure{Kind: cloud.Rejected, Reason: "Unauthorized", Short: at(label.OnDemand, "c5.large/a")},
		},
	} {
		var got *cloud.Failure
		if !errors.As(failureOf(offered(c.capacityType), c.refusals), &got) {
			t.Errorf("%s: no failure", name)
			continue
		}
		c.want.Message = got.Message
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Message == "" {
			t.Errorf("%s: it says nothing", name)
		}
	}
}

// TestDefiniteAnswers says which errors of CreateFleet end a launch request. Without one the
// request is sent again, so an error that may hide a launch must never end it.
func TestDefiniteAnswers(t *testing.T) {
	t.Parallel()
	refused := func(code string, fault smithy.ErrorFault) error {
		return &smithy.GenericAPIError{Code: code, Message: "m", Fault: fault}
	}
	for name, c := range map[string]struct {
		err      error
		doubtful bool
		want     bool
	}{
		"a refusal of a first attempt":      {refused("InvalidParameterValue", smithy.FaultClient), false, true},
		"a refusal after a lost answer":     {refused("InvalidParameterValue", smithy.FaultClient), true, false},
		"no capacity after a lost answer":   {refused("InsufficientInstanceCapacity", smithy.FaultClient), true, false},
		"an error of EC2's own":             {refused("InternalError", smithy.FaultServer), false, false},
		"throttling":                        {refused("RequestLimitExceeded", smithy.FaultClient), false, false},
		"expired credentials":               {refused("ExpiredToken", smithy.FaultClient), false, false},
		"a connection that ended":           {errCut, false, false},
		"the token was used for another":    {refused("IdempotentParameterMismatch", smithy.FaultClient), false, false},
		"a launch template that is missing": {refused("InvalidLaunchTemplateName.NotFoundException", smithy.FaultClient), false, true},
	} {
		v, err := answerError(offered(label.Spot), c.err, c.doubtful)
		if resolved := err == nil; resolved != c.want || resolved != (v.failure != nil) {
			t.Errorf("%s: settled %v, failure %v", name, resolved, v.failure)
		}
	}
}
