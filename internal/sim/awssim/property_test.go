package awssim_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestNothingIsLost: whatever is launched, ended, interrupted and cut, addresses and pools
// add up, no two instances share an address, and once all is over everything is back.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	const pool = 5
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(o *awssim.Options) {
			o.Seed, o.Unlimited = rapid.Uint64().Draw(rt, "seed"), true
			o.Capacity = func(string, string, string) int { return pool }
		})
		w.template(t.Context(), t, "", nil)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.someStep(rt, t)
			w.checkSums(rt, t, pool)
		}
		w.sim.Clear()
		for _, in := range w.sim.Instances() {
			if !in.Live() {
				continue
			}
			if _, err := w.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{in.ID}}); err != nil {
				rt.Fatal(err)
			}
		}
		w.pass(time.Minute)
		if free := w.free(rt, t); free != 4091 {
			rt.Fatalf("%d addresses are free at the end, want all 4091", free)
		}
		w.pass(2 * time.Hour)
		if n := len(w.sim.Instances()); n != 0 {
			rt.Fatalf("%d instances are remembered two hours after their end", n)
		}
	})
}

// someStep does something to the account.
func (w *world) someStep(rt *rapid.T, t *testing.T) {
	switch rapid.IntRange(0, 4).Draw(rt, "step") {
	case 0, 1:
		kind := rapid.SampledFrom([]ec2types.DefaultTargetCapacityType{"spot", "on-demand"}).Draw(rt, "kind")
		// A cut connection is an error here, and no more.
		_, _ = w.ec2.CreateFleet(t.Context(), fleet(rapid.Int32Range(1, 7).Draw(rt, "n"), kind, override("m5.large", subnetA), override("c5.large", subnetA)))
	case 2:
		kind := rapid.SampledFrom([]string{awssim.FaultTerminate, awssim.FaultInterrupt, awssim.FaultRebalance}).Draw(rt, "fault")
		if err := w.sim.Inject(awssim.Fault{Kind: kind, Count: rapid.IntRange(1, 4).Draw(rt, "count")}); err != nil {
			rt.Fatal(err)
		}
	case 3:
		if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultCut, Operation: "ec2:CreateFleet", Times: 1}); err != nil {
			rt.Fatal(err)
		}
	default:
		w.pass(time.Duration(rapid.IntRange(1, 200).Draw(rt, "seconds")) * time.Second)
	}
}

// checkSums compares what subnets and pools say with what runs.
func (w *world) checkSums(rt *rapid.T, t *testing.T, pool int) {
	used, pools, addresses := 0, map[string]int{}, map[string]bool{}
	for page := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(15)}); page.HasMorePages(); {
		out, err := page.NextPage(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range out.Reservations {
			in := r.Instances[0]
			if in.State.Name == "terminated" {
				continue
			}
			used++
			if a := aws.ToString(in.PrivateIpAddress); addresses[a] {
				rt.Fatalf("two instances have %s", a)
			} else {
				addresses[a] = true
			}
			pools[fmt.Sprint(in.InstanceType, in.InstanceLifecycle)]++
		}
	}
	if free := w.free(rt, t); free+used != 4091 {
		rt.Fatalf("%d addresses are free and %d in use, of 4091", free, used)
	}
	for name, n := range pools {
		if n > pool {
			rt.Fatalf("the pool %s of %d has %d instances", name, pool, n)
		}
	}
}

// free is how many addresses subnetA has.
func (w *world) free(rt *rapid.T, t *testing.T) int {
	out, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnetA}})
	if err != nil {
		rt.Fatal(err)
	}
	return int(aws.ToInt32(out.Subnets[0].AvailableIpAddressCount))
}

// TestSeed: the same calls to accounts of one seed have the same answers; another seed has
// others.
func TestSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) string {
		w := newWorld(t, func(o *awssim.Options) { o.Seed = seed })
		w.template(t.Context(), t, nodeadm, nil)
		for range 3 {
			if _, err := w.ec2.CreateFleet(t.Context(), fleet(2, "spot", override("m5.large", subnetA), override("c5.large", subnetB))); err != nil {
				t.Fatal(err)
			}
			if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultInterrupt, Count: 1}, awssim.Fault{Kind: awssim.FaultDeprecate}); err != nil {
				t.Fatal(err)
			}
			w.pass(25 * time.Second)
		}
		var lines []string
		for _, in := range w.sim.Instances() {
			lines = append(lines, fmt.Sprint(in.ID, in.State, in.Node, in.PriceHourly))
		}
		return strings.Join(append(lines, w.sim.Parameter(al2023)), "\n")
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("one seed, two stories:\n%s\n\n%s", a, b)
	}
	if run(1) == run(2) {
		t.Error("two seeds, one story")
	}
}

// TestSpent: an instance costs until it has ended, and stays on the bill.
func TestSpent(t *testing.T) {
	t.Parallel()
	w := launched(t, 2, "on-demand") // a minute ago
	w.pass(59 * time.Minute)
	if got := w.sim.Spent(); math.Abs(got-2*0.096) > 1e-9 {
		t.Errorf("two m5.large for an hour cost %v, want 0.192", got)
	}
	if err := w.sim.Inject(awssim.Fault{Kind: awssim.FaultTerminate}); err != nil {
		t.Fatal(err)
	}
	w.pass(3 * time.Hour)
	if got := w.sim.Spent(); got < 0.192 || got > 0.192*1.02 || len(w.sim.Instances()) != 0 {
		t.Errorf("three hours after their end the bill is %v", got)
	}
}

// TestSpotPrices: prices move, near the catalog's, and never above on demand.
func TestSpotPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	seen := map[float64]bool{}
	for range 24 {
		p, ok := w.sim.SpotPrice("m5.large", "us-east-1a")
		if !ok || p <= 0 || p > 0.096 {
			t.Fatalf("m5.large costs %v, %v", p, ok)
		}
		seen[p] = true
		w.pass(time.Hour)
	}
	if len(seen) < 12 {
		t.Errorf("%d prices in a day", len(seen))
	}
	if _, ok := w.sim.SpotPrice("m5.large", "us-east-1e"); ok {
		t.Error("m5.large has a spot price where it is not sold")
	}
}
