package aws

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestRepeatedTokenOverTheWire loses the answer to a fleet and has EC2 answer the repeat in each
// way, while what it launched is shown at once, after a minute, now and then, or later than EC2 is
// believed to take. Then a crash. All ask until they have an answer, and what is nobody's is swept: one
// instance for each claim is left.
func TestRepeatedTokenOverTheWire(t *testing.T) {
	t.Parallel()
	type account struct {
		is   awssim.Beliefs
		late time.Duration
	}
	var accounts []account
	for _, repeat := range repeats() {
		is := awssim.Beliefs{RepeatedToken: repeat}
		accounts = append(accounts, account{is, 0}, account{is, time.Minute})
		if repeat == awssim.RepeatSame || repeat == awssim.RepeatOthers {
			accounts = append(accounts, account{is, 2 * seenAfter})
			is.Flickers = true
			accounts = append(accounts, account{is, time.Minute})
		}
	}
	forgotten := awssim.Beliefs{TokenKept: 10 * time.Second}
	accounts = append(accounts, account{forgotten, 0}, account{forgotten, time.Minute})
	for _, a := range accounts {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q, kept for %s, shown after %s, flickers %t, crash %t", a.is.RepeatedToken, a.is.TokenKept, a.late, a.is.Flickers, crash), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { lostAnswer(t, a.is, a.late, crash) })
			})
		}
	}
}

func lostAnswer(t *testing.T, is awssim.Beliefs, late time.Duration, crash bool) {
	t.Helper()
	w := newWorld(t, func(o *awssim.Options) { o.Beliefs = is })
	p := w.provider(t)
	w.ready(t, p, "default")
	wanted, reported := map[string]cloud.LaunchRequest{}, map[string]string{}
	rs := requests(t, p, 4, onDemand)
	launchIDs(t, p, rs[3:]) // which makes the launch template
	for _, r := range rs[:3] {
		wanted[r.Token] = r
	}
	faults := []awssim.Fault{{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1}}
	if late > 0 {
		faults = append(faults, awssim.Fault{Kind: awssim.FaultInconsistent, Delay: metav1.Duration{Duration: late}})
	}
	if err := w.sim.Inject(faults...); err != nil {
		t.Fatal(err)
	}
	if ask(t.Context(), t, p, wanted, reported); len(reported) > 0 {
		t.Fatalf("the answer was lost, and yet there is %v", reported)
	}
	if crash {
		p = w.provider(t)
	}
	for range 30 {
		ask(t.Context(), t, p, wanted, reported)
		sweep(t.Context(), t, p, wanted, reported)
		time.Sleep(15 * time.Second)
	}
	left := 0 // the first one is no claim's here, and swept
	for _, i := range w.sim.Instances() {
		if i.Live() {
			left++
		}
	}
	if len(reported) != 3 || left != 3 {
		t.Errorf("claims have %v, and %d instances run; want three", reported, left)
	}
	again := is.RepeatedToken == awssim.RepeatOthers || is.TokenKept > 0
	doubles := again && late > 0 || late > seenAfter // what is shown at once is found, and nothing repeated
	if made := len(w.sim.Instances()); made != 4 && !doubles {
		t.Errorf("%d instances were made, want four", made)
	}
}

// TestRefusalsEitherWay loses the answer to a fleet of three for which EC2 has two instances.
// Whether or not the answer to the repeat says why, two claims get them and the third learns that
// there is no more.
func TestRefusalsEitherWay(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.RefusalsForgotten = forgotten })
			p := w.provider(t)
			w.ready(t, p, "default")
			rs := requests(t, p, 3, onDemand)
			wanted, reported := map[string]cloud.LaunchRequest{}, map[string]string{}
			for i := range rs {
				rs[i].Choices = rs[i].Choices[:1]
				wanted[rs[i].Token] = rs[i]
			}
			place := rs[0].Choices[0]
			w.sim.SetCapacity(capacityTypeOf(place), place.Type.Name, place.Offering.Zone, 2)
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1}); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				ask(t.Context(), t, p, wanted, reported)
				time.Sleep(15 * time.Second)
			}
			if len(reported) != 2 || len(wanted) != 2 || len(w.sim.Instances()) != 2 {
				t.Errorf("forgotten %t: %d claims have instances, %d want one, and EC2 made %d; want two", forgotten, len(reported), len(wanted), len(w.sim.Instances()))
			}
		})
	}
}

func capacityTypeOf(o catalog.Choice) string { return o.Offering.CapacityType }

// TestTemplateGoneEitherWay deletes the launch templates behind the provider's back. EC2 says so
// as its answer, or as an error of the overrides: they are made anew, and it launches.
func TestTemplateGoneEitherWay(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.TemplateErrorInside = inside })
			p := w.provider(t)
			w.ready(t, p, "default")
			rs := requests(t, p, 4, onDemand)
			launchIDs(t, p, rs[:2])
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultDeleteTemplates, Target: "*"}); err != nil {
				t.Fatal(err)
			}
			if got := launchIDs(t, p, rs[2:]); len(got) != 2 || len(w.sim.Instances()) != 4 {
				t.Errorf("inside %t: launched %v", inside, got)
			}
		})
	}
}

// TestGroupGoneEitherWay has EC2 say in either way that a placement group does not exist: the
// class says so.
func TestGroupGoneEitherWay(t *testing.T) {
	t.Parallel()
	for _, malformed := range []bool{false, true} {
		w := newWorld(t, func(o *awssim.Options) { o.Beliefs.GroupIDMalformed = malformed })
		c := newClass("grouped")
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{ID: "pg-0123456789abcdef0"}
		if err := w.api.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := w.provider(t).classes.reconcile(t.Context(), reconcile.Request{NamespacedName: named("grouped")}); err != nil {
			t.Fatal(err)
		}
		if got := said(w.class(t, "grouped"), awsv1.ConditionTypePlacementGroupReady); got != "False PlacementGroupNotFound" {
			t.Errorf("malformed %t: %s", malformed, got)
		}
	}
}

// TestEqualsEitherWay has EC2 choose among equals by capacity, or take them as listed. The dearer
// types have more: the cheapest is launched all the same, wherever there is some.
func TestEqualsEitherWay(t *testing.T) {
	t.Parallel()
	for _, byCapacity := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.EqualByCapacity = byCapacity })
			p := w.provider(t)
			w.ready(t, p, "default")
			rs := requests(t, p, 2, onDemand)
			best := rs[0].Choices[0]
			for _, o := range rs[0].Choices {
				if o.Type.Name == best.Type.Name {
					w.sim.SetCapacity(capacityTypeOf(o), o.Type.Name, o.Offering.Zone, 5)
				}
			}
			if got := launchIDs(t, p, rs); len(got) != 2 {
				t.Errorf("by capacity %t: launched %v", byCapacity, got)
			}
			for _, i := range w.sim.Instances() {
				if i.Type != best.Type.Name {
					t.Errorf("by capacity %t: launched %s, and %s is cheaper", byCapacity, i.Type, best.Type.Name)
				}
			}
		})
	}
}

// TestLargestFleet has a request with as many offerings as a fleet takes: it stays below what EC2
// takes if that is less than two thirds of what is believed.
func TestLargestFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *awssim.Options) { o.Families, o.Beliefs.FleetBodyMax = nil, 100<<10 })
		p := w.provider(t)
		w.ready(t, p, "default")
		all, err := p.Types(t.Context(), classRef)
		if err != nil {
			t.Fatal(err)
		}
		rs := requests(t, p, 1, onDemand)
		rs[0].Choices = catalog.Choices(all, onDemand, quantity.List{quantity.CPU: 100, quantity.Pods: 1})
		if s, err := newFleetSpec(newClass("default"), &rs[0]); err != nil || len(s.choices) < 150 {
			t.Fatalf("only %d offerings go into the fleet, error %v", len(s.choices), err)
		}
		if got := launchIDs(t, p, rs); len(got) != 1 {
			t.Errorf("launched %v", got)
		}
	})
}

// TestProfileGoneEitherWay has a class whose instance profile does not exist. A dry run finds it; or,
// if it does not, the launch is refused for that reason, and works as soon as there is one.
func TestProfileGoneEitherWay(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.BlindDryRun = blind })
			p := w.provider(t)
			c := newClass("own")
			c.Spec.Role, c.Spec.InstanceProfile = "", new("mine")
			if err := w.api.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			w.follow(t, p, "own", 5*time.Minute, func(*awsv1.EC2NodeClass) {})
			ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "own"}
			r := requestsOf(t, p, ref, 2, onDemand)
			result := p.Launch(t.Context(), r[:1])[0]
			var failure *cloud.Failure
			if !errors.As(result.Err, &failure) {
				t.Fatalf("blind %t: launched without a profile: %v", blind, result.Err)
			}
			reported := failure.Kind == cloud.ClassNotReady && said(w.class(t, "own"), awsv1.ConditionTypeValidationSucceeded) == "False InstanceProfileNotFound"
			if blind {
				reported = failure.Kind == cloud.Rejected && failure.Reason == "InstanceProfileNameInvalid"
			}
			if !reported {
				t.Errorf("blind %t: %+v", blind, failure)
			}
			w.sim.AddProfile("mine", "nodes")
			w.follow(t, p, "own", 2*missingAgain, func(*awsv1.EC2NodeClass) {})
			if got := launchIDs(t, p, r[1:]); len(got) != 1 {
				t.Errorf("blind %t: with the profile: %v", blind, got)
			}
		})
	}
}

// TestReservedFleetsEitherWay has EC2 refuse fleets for capacity blocks or interruptible
// reservations as such: their offering is short then, so that the next plan launches something else.
func TestReservedFleetsEitherWay(t *testing.T) {
	t.Parallel()
	for _, interruptible := range []bool{false, true} {
		for _, refused := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(o *awssim.Options) { o.Beliefs.NoReservedFleets = refused })
				reservation := awssim.Reservation{InstanceType: "m5.large", Zone: "us-east-1b", Total: 2, Tags: map[string]string{"for": "us"}, Interruptible: interruptible}
				if !interruptible {
					reservation.Type, reservation.End = awsv1.CapacityReservationTypeCapacityBlock, time.Now().Add(24*time.Hour)
				}
				id, err := w.sim.AddReservation(reservation)
				if err != nil {
					t.Fatal(err)
				}
				c := newClass("reserved")
				c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: reservation.Tags}}
				if err := w.api.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				p := w.provider(t)
				w.ready(t, p, "reserved")
				ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "reserved"}
				r := requestsOf(t, p, ref, 1, label.Requirements{label.CapacityType: label.In(label.Reserved)})
				result := p.Launch(t.Context(), r)[0]
				var failure *cloud.Failure
				switch failed := errors.As(result.Err, &failure); {
				case failed != refused:
					t.Errorf("interruptible %t, refused %t: %v", interruptible, refused, result.Err)
				case failed && (failure.Kind != cloud.NoCapacity || !slices.Equal(failure.Short, []catalog.Place{{Type: "m5.large", Zone: "us-east-1b", CapacityType: label.Reserved, Reservation: id}})):
					t.Errorf("interruptible %t: %+v", interruptible, failure)
				}
			})
		}
	}
}

// TestBandwidthEitherWay has EC2 say the bandwidth of network cards, or not. Requirements about it
// choose among the types of which EC2 says it; what EC2 stops to say makes no node drift.
func TestBandwidthEitherWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		wide := onDemand.With(awsv1.LabelInstanceNetworkBandwidth, label.Between(10_001, math.MaxInt64))
		result := p.Launch(t.Context(), requests(t, p, 1, wide))[0]
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if has := result.Instance.Labels[awsv1.LabelInstanceNetworkBandwidth]; !wide[awsv1.LabelInstanceNetworkBandwidth].Allows(has) {
			t.Errorf("asked for more than 10 Gbit/s, and got %s Mbit/s", has)
		}
		w.sim.Believe(awssim.Beliefs{BandwidthUnsaid: true})
		p = w.provider(t)
		all, err := p.Types(t.Context(), classRef)
		if err != nil {
			t.Fatal(err)
		}
		need := quantity.List{quantity.CPU: 1500, quantity.Pods: 5}
		if choices := catalog.Choices(all, wide, need); len(choices) > 0 {
			t.Errorf("%s is available, of which EC2 does not say its bandwidth", choices[0].Type.Name)
		}
		for _, without := range []label.Requirements{onDemand, onDemand.With(awsv1.LabelInstanceNetworkBandwidth, label.DoesNotExist())} {
			if choices := catalog.Choices(all, without, need); len(choices) == 0 {
				t.Errorf("nothing is available for %v", without)
			}
		}
		time.Sleep(time.Minute)
		if reason, err := p.Drifted(t.Context(), classRef, result.Instance.ID); reason != "" || err != nil {
			t.Errorf("drifted %q, error %v", reason, err)
		}
	})
}

// TestQuotasEitherWay has one quota for the families that are believed to have two. The quota is
// used up: where EC2 counts both by it the second is reported short too, else it is launched.
func TestQuotasEitherWay(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.OneQuota = one })
			w.sim.SetQuota("on-demand/standard", 0)
			p := w.provider(t)
			w.ready(t, p, "default")
			r := requests(t, p, 1, onDemand)[0]
			all, err := p.Types(t.Context(), classRef)
			if err != nil {
				t.Fatal(err)
			}
			family := func(name string) []catalog.Choice {
				return catalog.Choices(all, onDemand.With(awsv1.LabelInstanceFamily, label.In(name)), r.Requests)[:1]
			}
			r.Choices = slices.Concat(family("m5"), family("g4dn"))
			result := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			var short []string
			for _, place := range result.Short {
				short = append(short, place.Type)
			}
			want := []string{"m5.large"}
			if one {
				want = []string{"g4dn.xlarge", "m5.large"}
			}
			if (result.Err != nil) != one || !slices.Equal(short, want) {
				t.Errorf("one quota %t: short of %v, want %v; error %v", one, short, want, result.Err)
			}
		})
	}
}

// TestNewInstancesEitherWay has EC2 show new instances after a while, or now and then until then:
// they are listed all the time.
func TestNewInstancesEitherWay(t *testing.T) {
	t.Parallel()
	for _, flickers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *awssim.Options) { o.Beliefs.Flickers = flickers })
			p := w.provider(t)
			w.ready(t, p, "default")
			rs := requests(t, p, 4, onDemand)
			launchIDs(t, p, rs[3:]) // which makes the launch template
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultInconsistent, Delay: metav1.Duration{Duration: time.Minute}}); err != nil {
				t.Fatal(err)
			}
			ids := launchIDs(t, p, rs[:3])
			for range 60 {
				time.Sleep(2 * time.Second)
				listed, err := p.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for token, id := range ids {
					if _, err := p.Get(t.Context(), id); err != nil || !slices.ContainsFunc(listed, func(i cloud.Instance) bool { return i.ID == id && i.Token == token }) {
						t.Fatalf("flickers %t: %s of %s is not there: %v", flickers, id, token, err)
					}
				}
			}
		})
	}
}
