package apply_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestADrainWithABoundHasADeadline: the claim has it before it is deleted, and an earlier one is kept.
// If the deletion never comes, because the command is undone, a claim that was to be repaired loses it.
func TestADrainWithABoundHasADeadline(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	minute := cluster.Bound{IsSet: true, Within: time.Minute}
	for name, c := range map[string]struct {
		had, want time.Duration // after noon; 0 without a bound: none
		bound     cluster.Bound
	}{
		"no bound":                   {},
		"no bound, and a deadline":   {had: time.Hour, want: time.Hour},
		"a bound":                    {bound: minute, want: time.Minute},
		"a bound, a later deadline":  {had: time.Hour, bound: minute, want: time.Minute},
		"a bound, an earlier one":    {had: time.Second, bound: minute, want: time.Second},
		"pods go by force from then": {bound: cluster.Bound{IsSet: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{karpenterv1.TerminationFinalizer}}}
			if c.had != 0 {
				claim.Annotations = map[string]string{karpenterv1.NodeClaimTerminationTimestampAnnotationKey: noon.Add(c.had).Format(time.RFC3339)}
			}
			api := fakeapi.New(t, claim).Build()
			d := &apply.Disrupter{Client: api, Now: func() time.Time { return noon }}
			deadline := func() time.Time {
				t.Helper()
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
					t.Fatal(err)
				}
				at, err := translate.Deadline(claim)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			r := plan.Removal{Node: "n", Claim: "c", Reason: plan.Unhealthy, Bound: c.bound}
			if before := deadline(); c.bound.IsSet && before.IsZero() { // the deletion is lost
				if err := apply.SetDeadline(t.Context(), api, claim, noon); err != nil {
					t.Fatal(err)
				}
				if err := d.Unmark(t.Context(), r); err != nil || !deadline().IsZero() {
					t.Fatalf("of a claim that is to stay: %v, %v", deadline(), err)
				}
			}
			if _, err := d.Remove(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			want := time.Time{}
			if c.want != 0 || c.bound.IsSet {
				want = noon.Add(c.want)
			}
			if got := deadline(); !got.Equal(want) || claim.DeletionTimestamp == nil {
				t.Errorf("the deadline is %v, want %v; deleted at %v", got, want, claim.DeletionTimestamp)
			}
		})
	}
}
