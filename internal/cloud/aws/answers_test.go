package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// TestShortBesideAFilledFleet fills a fleet from the second place, as the first has nothing: the
// shortage is reported though nothing failed.
func TestShortBesideAFilledFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 2, onDemand)
		first := rs[0].Choices[0]
		place := catalog.Place{Type: first.Type.Name, Zone: first.Offering.Zone, CapacityType: first.Offering.CapacityType}
		w.sim.SetCapacity(place.CapacityType, place.Type, place.Zone, 0)
		var short []catalog.Place
		for _, r := range p.Launch(t.Context(), rs) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			short = append(short, r.Short...)
		}
		if !slices.Equal(short, []catalog.Place{place}) {
			t.Errorf("reported that %v are short, want %v once", short, place)
		}
	})
}

// TestOneProtectedInstance ends five at once, one of which is protected: it has its own error,
// and the others end.
func TestOneProtectedInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		var ids []string
		for _, id := range launchIDs(t, p, requests(t, p, 5, onDemand)) {
			bare, _ := instanceID(id)
			ids = append(ids, bare)
		}
		time.Sleep(time.Minute)
		slices.Sort(ids)
		w.sim.Protect(ids[1], true)
		got, err := p.instances.terminateAll(t.Context(), append(ids, "i-0123456789abcdef0"))
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if protected := i == 1; got[id].known == protected || (got[id].err != nil) != protected {
				t.Errorf("instance %d of 5: %+v", i, got[id])
			}
		}
		if e, ok := got["i-0123456789abcdef0"]; ok {
			t.Errorf("an instance that there is not: %+v", e)
		}
		if err := got[ids[1]].err; err != nil && !strings.Contains(err.Error(), "disableApiTermination") {
			t.Errorf("the protected one: %v", err)
		}
	})
}

// TestForeignNotices sends notices about a hundred instances of others, once ours are listed:
// EC2 is asked about none of them.
func TestForeignNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		ids := launchIDs(t, p, requests(t, p, 1, onDemand))
		time.Sleep(time.Minute)
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := w.sim.Calls()["ec2:DescribeInstances"]
		reported := 0
		report := func(context.Context, cloud.Notice) error { reported++; return nil }
		ours, _ := instanceID(ids["token-0"])
		for i := range 100 {
			for _, id := range []string{fmt.Sprintf("i-%017x", i), ours} {
				if _, err := p.notifier(report).forward(t.Context(), cloud.Notice{Kind: cloud.Ended, InstanceID: id}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if asked := w.sim.Calls()["ec2:DescribeInstances"] - before; asked > 0 || reported != 100 {
			t.Errorf("EC2 was asked %d times, and %d notices were ours; want none and 100", asked, reported)
		}
		time.Sleep(listKept)
		if _, err := p.notifier(report).forward(t.Context(), cloud.Notice{Kind: cloud.Ended, InstanceID: "i-0123456789abcdef0"}); err != nil {
			t.Fatal(err)
		}
		if w.sim.Calls()["ec2:DescribeInstances"] == before {
			t.Error("what was listed long ago is believed")
		}
	})
}

// TestAddressesInFlight launches instances: the CNI takes addresses of their subnet for all the pods
// that they may have, so another subnet of the zone is the better one before EC2 says so.
func TestAddressesInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 4, onDemand)
		pods := int(rs[0].Choices[0].Type.Capacity[quantity.Pods])
		for i := range rs {
			rs[i].Choices = rs[i].Choices[:1]
		}
		free := func() (n int) {
			p.classes.network.addresses.mu.Lock()
			defer p.classes.network.addresses.mu.Unlock()
			for _, s := range p.classes.network.addresses.subnets {
				n += s.free
			}
			return n
		}
		before := free()
		launchIDs(t, p, rs)
		if took := before - free(); took != 4*pods || pods < 8 {
			t.Errorf("four instances for %d pods each took %d addresses", pods, took)
		}
	})
	small := &catalog.Type{Name: "small", Capacity: quantity.List{quantity.Pods: 29}}
	for dns, want := range map[string]int{"172.20.0.10": 29, "fd00::a": 1, "": 29} {
		if got := (&fleetSpec{dns: dns}).addresses(small); got != want {
			t.Errorf("with DNS at %q an instance takes %d addresses, want %d", dns, got, want)
		}
	}
}

// TestRefusedForMinValues asks for more families than there are to be had: EC2 is not asked, and
// the failure names the rule.
func TestRefusedForMinValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		rs := requests(t, p, 1, onDemand)
		families := map[string]bool{}
		for _, o := range rs[0].Choices {
			for _, f := range o.Type.Requirements[awsv1.LabelInstanceFamily].Values() {
				families[f] = true
			}
		}
		with := func(n int) cloud.LaunchResult {
			r := rs[0]
			r.Requirements = label.Requirements{}
			for key, value := range rs[0].Requirements {
				r.Requirements[key] = value
			}
			r.Requirements[awsv1.LabelInstanceFamily] = label.Exists().WithMinValues(n)
			r.Token, r.Claim = fmt.Sprint("t", n), fmt.Sprint("c", n)
			return p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
		}
		before := w.sim.Calls()["ec2:CreateFleet"]
		var failure *cloud.Failure
		err := with(len(families) + 1).Err
		if !errors.As(err, &failure) || failure.Reason != reasonMinValues || !strings.Contains(failure.Message, awsv1.LabelInstanceFamily) {
			t.Errorf("with a family too few: %v", err)
		}
		if n := w.sim.Calls()["ec2:CreateFleet"] - before; n != 0 {
			t.Errorf("EC2 was asked %d times", n)
		}
		if err := with(len(families)).Err; err != nil {
			t.Errorf("with all %d families: %v", len(families), err)
		}
	})
}
