package aws

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dovetail-sh/dovetail/internal/sim/awssim"
)

// TestCallsAreReported has requests succeed, be repeated, be refused, and get no answer.
func TestCallsAreReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  awssim.Fault
		status []int // of the attempts
		total  Call
	}{
		"at once":               {awssim.Fault{}, []int{200}, Call{Status: 200, Attempts: 1}},
		"the second time":       {awssim.Fault{Kind: awssim.FaultError, Times: 1}, []int{500, 200}, Call{Status: 200, Attempts: 2}},
		"throttled, and served": {awssim.Fault{Kind: awssim.FaultThrottle, Times: 2}, []int{503, 503, 200}, Call{Status: 200, Attempts: 3}},
		"never":                 {awssim.Fault{Kind: awssim.FaultDenied}, []int{403}, Call{Status: 403, Attempts: 1}},
		"the way is cut":        {awssim.Fault{Kind: awssim.FaultDown}, []int{0, 0, 0, 0}, Call{Status: 0, Attempts: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.provider(t)
				var reported []Call
				p.limits.called = func(c Call) { reported = append(reported, c) }
				if c.fault.Kind != "" {
					c.fault.For.Duration = time.Hour
					if err := w.sim.Inject(c.fault); err != nil {
						t.Fatal(err)
					}
				}
				_, _ = p.clients.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
				var want []Call
				for _, status := range c.status {
					want = append(want, Call{Service: "EC2", Operation: "DescribeSubnets", Status: status})
				}
				c.total.Service, c.total.Operation = "EC2", "DescribeSubnets"
				if diff := cmp.Diff(append(want, c.total), reported, cmpopts.IgnoreFields(Call{}, "Took")); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
				if slices.ContainsFunc(reported, func(c Call) bool { return c.Took < 0 }) {
					t.Errorf("a call took less than nothing: %v", reported)
				}
			})
		})
	}
}
