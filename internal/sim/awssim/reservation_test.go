package awssim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// reserve makes a template that targets a new reservation.
func (w *world) reserve(t *testing.T, r awssim.Reservation, market ec2types.MarketType) {
	t.Helper()
	id, err := w.sim.AddReservation(r)
	if err != nil {
		t.Fatal(err)
	}
	w.template(t.Context(), t, "", func(d *ec2types.RequestLaunchTemplateData) {
		d.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: "capacity-reservations-only", CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String(id)},
		}
		if market != "" {
			d.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: market}
		}
	})
}

// lifecycles lists what runs.
func (w *world) lifecycles(t *testing.T) string {
	t.Helper()
	out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: filter("instance-state-name", "pending", "running")})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range out.Reservations {
		all = append(all, string(r.Instances[0].InstanceLifecycle))
	}
	return strings.Join(all, " ")
}

// TestCapacityBlock: a block's instances go half an hour before its end.
func TestCapacityBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.reserve(t, awssim.Reservation{InstanceType: "p5.48xlarge", Zone: "us-east-1a", Total: 1, Type: "capacity-block", End: w.clock.Now().Add(2 * time.Hour)}, "capacity-block")
	out, err := w.ec2.CreateFleet(t.Context(), fleet(2, "capacity-block", override("p5.48xlarge", subnetA)))
	if err != nil || len(ids(out)) != 1 || aws.ToString(out.Errors[0].ErrorCode) != "ReservationCapacityExceeded" {
		t.Fatal(out, err)
	}
	w.pass(89 * time.Minute)
	if got := w.lifecycles(t); got != "capacity-block" {
		t.Errorf("before: %q", got)
	}
	w.pass(time.Minute)
	if got := w.lifecycles(t); got != "" {
		t.Errorf("half an hour before the end: %q", got)
	}
}

// TestInterruptibleReservation: its owner may want it back.
func TestInterruptibleReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.reserve(t, awssim.Reservation{InstanceType: "m5.large", Zone: "us-east-1a", Total: 1, Interruptible: true}, "interruptible-capacity-reservation")
	if out, err := w.ec2.CreateFleet(t.Context(), fleet(1, "reserved-capacity", override("m5.large", subnetA))); err != nil || len(ids(out)) != 1 {
		t.Fatal(out, err)
	}
	if got := w.lifecycles(t); got != "interruptible-capacity-reservation" {
		t.Errorf("lifecycle %q", got)
	}
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultReclaim}); err != nil {
		t.Fatal(err)
	}
	if m := w.messages(t); m[len(m)-1].DetailType != "EC2 Capacity Reservation Instance Interruption Warning" {
		t.Errorf("messages %+v", m)
	}
	w.pass(2 * time.Minute)
	if got := w.lifecycles(t); got != "" {
		t.Errorf("after the notice: %q", got)
	}
}

// TestOpenReservation: instances that do not opt out use up an open reservation first.
func TestOpenReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id, err := w.sim.AddReservation(awssim.Reservation{InstanceType: "m5.large", Zone: "us-east-1a", Total: 1, Match: "open"})
	if err != nil {
		t.Fatal(err)
	}
	w.template(t.Context(), t, "", nil)
	if _, err := w.ec2.CreateFleet(t.Context(), fleet(2, "on-demand", override("m5.large", subnetA))); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, in := range w.sim.Instances() {
		if in.Reservation == id {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of two instances are in the reservation of one", n)
	}
}

// TestPlacement: a spread group takes seven instances in a zone; a partition group fills
// evenly.
func TestPlacement(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		group awssim.PlacementGroup
		want  int
		code  string
	}{
		"spread":    {awssim.PlacementGroup{Name: "g", Strategy: "spread"}, 7, "InsufficientInstanceCapacity"},
		"partition": {awssim.PlacementGroup{Name: "g", Strategy: "partition", Partitions: 3}, 9, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			id := w.sim.AddPlacementGroup(tc.group)
			w.template(t.Context(), t, "", func(d *ec2types.RequestLaunchTemplateData) {
				d.Placement = &ec2types.LaunchTemplatePlacementRequest{GroupId: aws.String(id)}
			})
			out, err := w.ec2.CreateFleet(t.Context(), fleet(9, "on-demand", override("m5.large", subnetA)))
			if err != nil || len(ids(out)) != tc.want {
				t.Fatal(out, err)
			}
			if tc.code != "" && aws.ToString(out.Errors[0].ErrorCode) != tc.code {
				t.Errorf("error %+v", out.Errors[0])
			}
			in, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids(out)})
			if err != nil {
				t.Fatal(err)
			}
			count := map[int32]int{}
			for _, r := range in.Reservations {
				count[aws.ToInt32(r.Instances[0].Placement.PartitionNumber)]++
			}
			if tc.group.Partitions > 0 && (count[1] != 3 || count[2] != 3 || count[3] != 3) {
				t.Errorf("partitions %v, want three each", count)
			}
		})
	}
}
