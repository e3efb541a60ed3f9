package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestZonalShift moves a cluster's traffic away from the zone of an instance, which EC2 then
// no longer shows: nothing is launched in the zone, and the instance is taken to be there and
// left as it is, until the shift is over.
func TestZonalShift(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 2, onDemand)
		id := launchIDs(t, p, rs[:1])["token-0"]
		time.Sleep(2 * time.Minute)
		if _, err := p.List(t.Context()); err != nil { // sees it
			t.Fatal(err)
		}
		zone := strings.Split(id, "/")[3]
		at := slices.IndexFunc(w.sim.Zones(), func(z awssim.Zone) bool { return z.Name == zone })
		w.sim.Shift(awssim.ZonalShift{AwayFrom: w.sim.Zones()[at].ID, Expires: time.Now().Add(3 * time.Hour)})
		reported, busy := map[string]bool{}, true
		var notices []cloud.Notice
		read := func() {
			err := p.types.shifts.read(t.Context(), reported, func(_ context.Context, n cloud.Notice) error {
				if busy = !busy; !busy {
					return errors.New("busy")
				}
				notices = append(notices, n)
				return nil
			})
			if err != nil && busy {
				t.Error(err)
			}
		}
		ends := time.Now().Add(3 * time.Hour).Truncate(time.Second)
		for range 3 {
			read()
		}
		expect := func(want ...cloud.Notice) {
			t.Helper()
			if diff := cmp.Diff(want, notices); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
		}
		expect(cloud.Notice{Kind: cloud.ZoneShifted, Zone: zone, Ends: ends.UTC()})
		if n := available(t, p, zone); n != 0 {
			t.Errorf("%d offerings are available in the zone", n)
		}
		for i := range rs[1].Choices { // as they were before
			if rs[1].Choices[i].Offering.Zone != zone {
				rs[1].Choices = rs[1].Choices[:i]
				break
			}
		}
		var failure *cloud.Failure
		if err := p.Launch(t.Context(), rs[1:])[0].Err; !errors.As(err, &failure) || failure.Kind != cloud.NoCapacity {
			t.Errorf("launch in the zone: %v, want no capacity", err)
		}

		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultTerminate, Count: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(170 * time.Minute) // EC2 no longer shows it, and everything else forgets it
		p.instances.forgetOld()
		if i, err := p.Get(t.Context(), id); err != nil || i.Terminating {
			t.Errorf("the instance is %+v, error %v; want it as it was", i, err)
		}
		if !isListed(t, p, id) {
			t.Error("the instance is not listed")
		}
		if err := p.Terminate(t.Context(), id); err == nil || errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("the instance was ended: %v", err)
		}

		time.Sleep(11 * time.Minute)
		for range 3 {
			read()
		}
		expect(cloud.Notice{Kind: cloud.ZoneShifted, Zone: zone, Ends: ends.UTC()}, cloud.Notice{Kind: cloud.ZoneRestored, Zone: zone})
		if n := available(t, p, zone); n == 0 {
			t.Error("nothing is available in the zone after the shift")
		}
		if isListed(t, p, id) {
			t.Error("an instance is listed that ended long ago")
		}
	})
}

// available counts the offerings of a zone that can be had.
func available(t *testing.T, p *Provider, zone string) (n int) {
	t.Helper()
	all, err := p.Types(t.Context(), classRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range all {
		for _, o := range of.Offerings {
			if o.Available && o.Zone == zone && o.CapacityType == label.OnDemand && o.Labels[awsv1.LabelTopologyZoneID] != "" {
				n++
			}
		}
	}
	return n
}

func isListed(t *testing.T, p *Provider, id string) bool {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(i cloud.Instance) bool { return i.ID == id })
}
