package aws

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestReserved launches three instances from reservations of two: two are reserved, say so
// in every answer, and the third is refused because the reservation is used up.
func TestReserved(t *testing.T) {
	t.Parallel()
	for name, reservation := range map[string]awssim.Reservation{
		"on-demand capacity":     {},
		"a capacity block":       {Type: awsv1.CapacityReservationTypeCapacityBlock},
		"interruptible capacity": {Interruptible: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				reservation.InstanceType, reservation.Zone, reservation.Total = "m5.large", "us-east-1b", 2
				reservation.Tags = map[string]string{"for": "us"}
				if reservation.Type != "" {
					reservation.End = time.Now().Add(24 * time.Hour)
				}
				id, err := w.sim.AddReservation(reservation)
				if err != nil {
					t.Fatal(err)
				}
				class := newClass("reserved")
				class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"for": "us"}}}
				if err := w.api.Create(t.Context(), class); err != nil {
					t.Fatal(err)
				}
				p := w.provider(t)
				w.ready(t, p, "reserved")
				rs := requestsOf(t, p, cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "reserved"}, 3, label.Requirements{label.CapacityType: label.In(label.Reserved)})
				got := 0
				for _, result := range p.Launch(t.Context(), rs) {
					var failure *cloud.Failure
					if errors.As(result.Err, &failure) {
						if failure.Kind != cloud.NoCapacity || len(failure.Short) > 0 {
							t.Errorf("failure %+v", failure)
						}
						continue
					}
					if result.Err != nil {
						t.Fatal(result.Err)
					}
					got++
					time.Sleep(time.Minute)
					again, err := p.Get(t.Context(), result.Instance.ID)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(result.Instance.Labels, again.Labels); diff != "" {
						t.Errorf("labels (-launched +got):\n%s", diff)
					}
					if l := again.Labels; l[label.CapacityType] != label.Reserved || l[awsv1.LabelCapacityReservationID] != id {
						t.Errorf("labels are %v", l)
					}
				}
				if got != 2 {
					t.Errorf("launched %d instances from the reservation, want two", got)
				}
			})
		})
	}
}

// TestWhatIsLeftOfAReservation follows a reservation of one instance: used up, it is available and
// cannot be launched; when its instance is gone it can, and it is counted once, however often the
// end is seen; and when EC2 refuses it for another reason than that it is used up, it alone is short.
func TestWhatIsLeftOfAReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		tags := map[string]string{"for": "us"}
		id, err := w.sim.AddReservation(awssim.Reservation{InstanceType: "m5.large", Zone: "us-east-1b", Total: 1, Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		class := newClass("reserved")
		class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: tags}}
		if err := w.api.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		p := w.provider(t)
		w.ready(t, p, "reserved")
		ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "reserved"}
		left := func(when string, want int) {
			t.Helper()
			types, err := p.Types(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range types {
				for i := range it.Offerings {
					if o := &it.Offerings[i]; o.Reservation == id && (!o.Available || o.Left != want || o.Launchable() != (want > 0)) {
						t.Errorf("%s: available %t, launchable %t, %d left, want %d", when, o.Available, o.Launchable(), o.Left, want)
					}
				}
			}
		}
		left("before", 1)
		rs := requestsOf(t, p, ref, 2, label.Requirements{label.CapacityType: label.In(label.Reserved)})
		got := launchIDs(t, p, rs[:1])[rs[0].Token]
		left("used up", 0)
		time.Sleep(time.Minute)
		if _, err := p.Get(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if err := p.Terminate(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(5 * time.Minute)
			if _, err := p.Get(t.Context(), got); !errors.Is(err, cloud.ErrNotFound) {
				t.Errorf("the instance is still there: %v", err)
			}
			left("given back", 1)
		}
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultShort, CapacityType: label.Reserved}); err != nil {
			t.Fatal(err)
		}
		var failure *cloud.Failure
		if err := p.Launch(t.Context(), rs[1:])[0].Err; !errors.As(err, &failure) {
			t.Fatalf("a launch from a reservation that EC2 cannot serve: %v", err)
		}
		want := []catalog.Place{{Type: "m5.large", Zone: "us-east-1b", CapacityType: label.Reserved, Reservation: id}}
		if diff := cmp.Diff(want, failure.Short); diff != "" || failure.Kind != cloud.NoCapacity {
			t.Errorf("%v is short (-want +got):\n%s", failure, diff)
		}
		left("refused for another reason", 1)
	})
}

// TestPlacementGroup launches into the partitions of a group: those that are asked for, or
// all of them one after the other. Each instance says which it is in, at once and later.
func TestPlacementGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		id := w.sim.AddPlacementGroup(awssim.PlacementGroup{Name: "racks", Strategy: "partition", Partitions: 3})
		class := newClass("grouped")
		class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
		if err := w.api.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		p := w.provider(t)
		w.ready(t, p, "grouped")
		ref := cloud.ClassRef{Group: awsv1.Group, Kind: classKind, Name: "grouped"}
		for name, c := range map[string]struct {
			want    label.Requirements
			allowed []string
		}{
			"one":       {onDemand.With(awsv1.LabelPlacementGroupPartition, label.In("2")), []string{"2"}},
			"all but 1": {onDemand.With(awsv1.LabelPlacementGroupPartition, label.NotIn("1")), []string{"2", "3"}},
			"any":       {onDemand, []string{"1", "2", "3"}},
		} {
			rs := requestsOf(t, p, ref, 8, c.want)
			for i := range rs {
				rs[i].Token, rs[i].Claim = rs[i].Token+name, rs[i].Claim+name
			}
			used := map[string]bool{}
			for _, result := range p.Launch(t.Context(), rs) {
				if result.Err != nil {
					t.Fatalf("%s: %v", name, result.Err)
				}
				l := result.Instance.Labels
				partition := l[awsv1.LabelPlacementGroupPartition]
				used[partition] = true
				if l[awsv1.LabelPlacementGroupID] != id || !slices.Contains(c.allowed, partition) || l[awsv1.LabelTopologyZoneID] == "" {
					t.Errorf("%s: labels are %v", name, l)
				}
				time.Sleep(time.Minute)
				again, err := p.Get(t.Context(), result.Instance.ID)
				if diff := cmp.Diff(l, again.Labels); diff != "" || err != nil {
					t.Errorf("%s: error %v; labels (-launched +got):\n%s", name, err, diff)
				}
				if reason, err := p.Drifted(t.Context(), ref, result.Instance.ID); reason != "" || err != nil {
					t.Errorf("%s: drifted %q, error %v", name, reason, err)
				}
			}
			if len(used) != len(c.allowed) {
				t.Errorf("%s: eight instances are in the partitions %v, want all of %v", name, used, c.allowed)
			}
		}
	})
}

// TestNoCredentialIsPassedOn looks for the credentials in all that a launch leaves behind.
func TestNoCredentialIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.provider(t)
		w.ready(t, p, "default")
		launchIDs(t, p, requests(t, p, 2, onDemand))
		keys := w.sim.Options().Credentials
		for _, i := range w.sim.Instances() {
			for _, secret := range []string{keys.SecretKey, keys.AccessKey, keys.SessionToken} {
				if secret != "" && (strings.Contains(i.UserData, secret) || strings.Contains(strings.Join(tagTexts(i.Tags), " "), secret)) {
					t.Errorf("instance %s gets a credential", i.ID)
				}
			}
		}
		var claims karpenterv1.NodeClaimList
		if err := w.api.List(t.Context(), &claims); err != nil || len(claims.Items) != 2 {
			t.Fatalf("there are %d claims, error %v", len(claims.Items), err)
		}
		for _, c := range claims.Items {
			if strings.Contains(fmt.Sprint(c), keys.SecretKey) {
				t.Errorf("NodeClaim %s has a credential", c.Name)
			}
		}
	})
}

func tagTexts(tags map[string]string) []string {
	var out []string
	for key, value := range tags {
		out = append(out, key, value)
	}
	return out
}
