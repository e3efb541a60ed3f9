package aws

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// counts is a meter that counts.
type counts struct {
	mu       sync.Mutex
	counts   map[string]int
	userData map[string]int
}

func (c *counts) add(format string, a ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[fmt.Sprintf(format, a...)]++
}

func (c *counts) LaunchFailed(zone, zoneID, capacityType, reason string) {
	c.add("launch %s %s %s %s", zone, zoneID, capacityType, reason)
}

func (c *counts) TerminationFailed(zone, zoneID string)           { c.add("end %s %s", zone, zoneID) }
func (c *counts) Gathered(what string, _ time.Duration, size int) { c.add("%s of %d", what, size) }
func (c *counts) Unhealthy(category string)                       { c.add("%s", category) }
func (c *counts) PricesRead(string, time.Time)                    {}
func (c *counts) UserData(class string, bytes int)                { c.userData[class] = bytes }

// take returns what was counted since the last time, and forgets it.
func (c *counts) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.counts
	c.counts = map[string]int{}
	return was
}

// TestMeter has things go wrong and shows what is counted.
func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		count := &counts{counts: map[string]int{}, userData: map[string]int{}}
		p.opts.Meter = count
		w.ready(t, p, "default")
		expect := func(what string, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, count.take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		inject := func(faults ...awssim.Fault) {
			t.Helper()
			if err := w.sim.Inject(faults...); err != nil {
				t.Fatal(err)
			}
		}
		count.take()
		if n := count.userData["default"]; n < 500 || n > userDataMost {
			t.Errorf("user data has %d bytes", n)
		}

		rs := requests(t, p, 3, onDemand)
		for i := range rs {
			rs[i].Choices = rs[i].Choices[:1]
		}
		at := rs[0].Choices[0].Offering
		ids := launchIDs(t, p, rs)
		expect("a launch", map[string]int{"create_fleet of 3": 1})

		inject(awssim.Fault{Kind: awssim.FaultShort})
		rs[0].Token, rs[0].Claim = "another", "another"
		if err := p.Launch(t.Context(), rs[:1])[0].Err; err == nil {
			t.Error("an instance was launched where there is none")
		}
		expect("a launch in vain", map[string]int{
			"create_fleet of 1": 1,
			fmt.Sprintf("launch %s %s on-demand InsufficientCapacity", at.Zone, at.Labels[awsv1.LabelTopologyZoneID]): 1,
		})

		time.Sleep(time.Minute)
		inject(awssim.Fault{Kind: awssim.FaultDenied, Operation: "ec2:TerminateInstances", Times: 1})
		if err := p.Terminate(t.Context(), ids["token-0"]); err == nil {
			t.Error("an instance was ended without permission")
		}
		expect("an end in vain", map[string]int{
			"describe_instances of 1": 1, "terminate_instances of 1": 1, fmt.Sprintf("end %s %s", at.Zone, at.Labels[awsv1.LabelTopologyZoneID]): 1,
		})

		inject(awssim.Fault{Kind: awssim.FaultImpair, Count: 1}, awssim.Fault{Kind: awssim.FaultMaintenance, Count: 3, Delay: metav1.Duration{Duration: time.Hour}})
		time.Sleep(brokenAfter + time.Second)
		status := &statusReader{opts: p.opts, clients: p.clients, notify: p.notifier(func(context.Context, cloud.Notice) error { return nil })}
		for range 3 {
			if err := status.read(t.Context()); err != nil {
				t.Error(err)
			}
		}
		expect("instances that are unwell", map[string]int{"instance_status": 1, "event_status": 2})

		if err := w.api.Delete(t.Context(), newClass("default")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("default")}); err != nil {
			t.Fatal(err)
		}
		if n := count.userData["default"]; n != 0 {
			t.Errorf("the class is gone, and its user data has %d bytes", n)
		}
	})
}
