package apply_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

// TestARebootIsRequestedOnce: twice within a day, and after that the node is replaced.
func TestARebootIsRequestedOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", Annotations: map[string]string{karpenterv1.RebootBootIDAnnotationKey: "old", karpenterv1.RebootGraceAnnotationKey: "9h0m0s", translate.StepAnnotationKey: "begun-halfway 1 1"}},
		Spec:       karpenterv1.NodeClaimSpec{TerminationGracePeriod: &karpenterv1.Duration{Duration: time.Hour}},
	}
	api := fakeapi.New(t, claim).Build()
	r := &apply.Reboots{Client: api, Now: func() time.Time { return now }}
	request := func(bound cluster.Bound) (got karpenterv1.NodeClaim, err error) {
		err = r.Request(t.Context(), &plan.Reboot{Claim: "c", Condition: "GPUReady", Cause: "XID46", Bound: bound})
		return got, errors.Join(err, api.Get(t.Context(), client.ObjectKey{Name: "c"}, &got))
	}
	end := func() {
		t.Helper()
		var nc karpenterv1.NodeClaim
		if err := api.Get(t.Context(), client.ObjectKey{Name: "c"}, &nc); err != nil {
			t.Fatal(err)
		}
		if err := apply.EndReboot(t.Context(), api, &nc, &lifecycle.Step{Reason: lifecycle.RebootSucceeded}, now); err != nil {
			t.Fatal(err)
		}
	}
	got, err := request(cluster.Bound{IsSet: true, Within: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := condition.ForNodeClaim(&got).Get(lifecycle.Rebooting)
	if c.Reason != lifecycle.RebootRequested || c.Message != "rebooting for GPUReady/XID46" || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("condition Rebooting is %+v", c)
	}
	if c := condition.ForNodeClaim(&got).Get(karpenterv1.ConditionTypeDisruptionReason); c.Reason != "Unhealthy" {
		t.Errorf("condition DisruptionReason is %+v", c)
	}
	if step, has := got.Annotations[translate.StepAnnotationKey]; has {
		t.Errorf("the claim is still part of the command %q, which never began", step)
	}
	if _, has := got.Annotations[karpenterv1.RebootBootIDAnnotationKey]; has || got.Annotations[karpenterv1.RebootGraceAnnotationKey] != "5m0s" {
		t.Errorf("annotations are %v", got.Annotations)
	}
	if _, err := request(cluster.Bound{}); !errors.Is(err, apply.ErrOvertaken) {
		t.Errorf("a second request while the first is under way: %v, want %v", err, apply.ErrOvertaken)
	}
	end()
	if r.IsEscalated("u") {
		t.Error("after one reboot it is to be replaced")
	}
	now = now.Add(time.Hour)
	if got, err = request(cluster.Bound{}); err != nil || got.Annotations[karpenterv1.RebootGraceAnnotationKey] != "1h0m0s" {
		t.Errorf("without a bound of the policy: annotations %v, %v; want the claim's own", got.Annotations, err)
	}
	end()
	if !r.IsEscalated("u") {
		t.Error("after two reboots it is not to be replaced")
	}
	now = now.Add(23*time.Hour + time.Second)
	if r.IsEscalated("u") {
		t.Error("a day after the first reboot it is to be replaced")
	}
}

// TestARebootWhoseAnswerWasLostCounts: it may have been requested. One that was refused was not.
func TestARebootWhoseAnswerWasLostCounts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"lost":     {apierrors.NewTimeoutError("the answer was lost", 1), true},
		"no API":   {io.ErrUnexpectedEOF, true},
		"conflict": {apierrors.NewConflict(schema.GroupResource{}, "c", nil), false},
	} {
		api := fakeapi.New(t, &karpenterv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}}).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return tc.err
			},
		}).Build()
		r := &apply.Reboots{Client: api, Now: func() time.Time { return now }}
		for range 2 {
			if err := r.Request(t.Context(), &plan.Reboot{Claim: "c"}); !errors.Is(err, tc.err) {
				t.Fatalf("%s: %v, want %v", name, err, tc.err)
			}
		}
		if got := r.IsEscalated("u"); got != tc.want {
			t.Errorf("%s: two requests count: %v, want %v", name, got, tc.want)
		}
	}
}
