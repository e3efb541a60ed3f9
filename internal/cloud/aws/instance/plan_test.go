package instance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestPlansTakeUpReservations has three pods, an instance each, and a reservation of two:
// what the core plans must be what the provider can launch.
func TestPlansTakeUpReservations(t *testing.T) {
	t.Parallel()
	const key = awsv1.LabelCapacityReservationID
	for name, tc := range map[string]struct {
		pool, pod label.Requirements
		launches  string // reserved instances, others, refused pods
	}{
		"anything will do":                {launches: "2 1 0"},
		"the pool wants the reservation":  {pool: label.Requirements{key: label.In("cr-1")}, launches: "2 0 1"},
		"the pool wants some reservation": {pool: label.Requirements{key: label.Exists()}, launches: "2 0 1"},
		"the pool wants another":          {pool: label.Requirements{key: label.In("cr-2")}, launches: "0 0 3"},
		"the pool wants none":             {pool: label.Requirements{key: label.DoesNotExist()}, launches: "0 3 0"},
		"the pods want the reservation":   {pod: label.Requirements{key: label.In("cr-1")}, launches: "2 0 1"},
		"the pods want none":              {pod: label.Requirements{key: label.DoesNotExist()}, launches: "0 3 0"},
		"the pool launches on demand":     {pool: label.Requirements{label.CapacityType: label.In("on-demand")}, launches: "0 3 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := class(t, "AL2023", func(c *instance.Class) {
				c.Left = map[string]int{"cr-1": 2}
				c.Status.CapacityReservations = []awsv1.CapacityReservation{{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-east-1a"}}
			})
			snap := snapshot(instance.Types([]types.InstanceTypeInfo{m5large()}, region(), c), tc.pool, tc.pod)
			plan := pack.Solve(snap, pack.Options{})
			reserved, others := 0, 0
			for _, l := range plan.Launches {
				choices := catalog.Choices(snap.Pools[0].Types, l.Requirements, l.Requests)
				if len(choices) == 0 {
					t.Fatalf("nothing to launch for %s", l.Requirements)
				}
				if choices[0].Offering.Reservation != "" {
					reserved++
				} else {
					others++
				}
			}
			if got := fmt.Sprint(reserved, others, len(plan.Refusals)); got != tc.launches {
				t.Errorf("reserved, others, refused: %s, want %s\n%+v", got, tc.launches, plan)
			}
		})
	}
}

// snapshot returns a cluster of one pool in which three pods wait, each as large as an instance.
func snapshot(all []*catalog.Type, pool, pod label.Requirements) *cluster.Snapshot {
	snap := &cluster.Snapshot{
		At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), ReservationKey: awsv1.LabelCapacityReservationID,
		WellKnown: map[string]bool{label.Zone: true, label.CapacityType: true, label.InstanceType: true},
		Pools:     []cluster.Pool{{Name: "default", Requirements: pool, Types: all}},
	}
	for _, key := range instance.WellKnown() {
		snap.WellKnown[key] = true
	}
	constraints := &cluster.Constraints{Requests: quantity.List{quantity.CPU: 1500, quantity.Pods: 1}, Terms: []label.Requirements{pod}}
	for i := range 3 {
		name := fmt.Sprintf("web-%d", i)
		snap.Pending = append(snap.Pending, cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Constraints: constraints})
	}
	return snap
}
