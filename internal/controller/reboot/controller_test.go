package reboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	core "github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// rebooting is a cloud with one instance, which boots as soon as its reboot is accepted.
type rebooting struct {
	cloud.Provider
	api client.Client
	// answers are given in order, and then the last for ever.
	answers []error
	never   bool // it does not come back
	boots   int
}

func (*rebooting) Name() string { return "test" }

func (*rebooting) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "karpenter.test", Kind: "Class"}}
}

// Reboot boots the instance, whatever the token: like EC2, which has none.
func (r *rebooting) Reboot(ctx context.Context, request cloud.RebootRequest) error {
	answer := error(nil)
	if len(r.answers) > 0 {
		if answer = r.answers[0]; len(r.answers) > 1 {
			r.answers = r.answers[1:]
		}
	}
	if request.Node != "n1" || request.InstanceID != "test://1" {
		return fmt.Errorf("unexpected request %+v", request)
	}
	if answer != nil || r.never {
		return answer
	}
	r.boots++
	var node corev1.Node
	if err := r.api.Get(ctx, client.ObjectKey{Name: "n1"}, &node); err != nil {
		return err
	}
	node.Status.NodeInfo.BootID = fmt.Sprintf("boot-%d", r.boots)
	return r.api.Status().Update(ctx, &node)
}

// server is an API server with a node whose reboot was requested. The write of that number, from 1, is
// lost.
func server(t *testing.T, losing int) (api, reliable client.Client) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"karpenter.test/class": "x", karpenterv1.NodePoolLabelKey: "p", karpenterv1.NodeInitializedLabelKey: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "test://1"},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-0"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c1", UID: "u1", Finalizers: []string{karpenterv1.TerminationFinalizer},
			Labels: map[string]string{"karpenter.test/class": "x", karpenterv1.NodePoolLabelKey: "p"},
		},
		Spec:   karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "karpenter.test", Kind: "Class", Name: "x"}},
		Status: karpenterv1.NodeClaimStatus{ProviderID: "test://1", NodeName: "n1"},
	}
	set := condition.ForNodeClaim(claim)
	for _, c := range []string{core.Launched, core.Registered, core.Initialized} {
		set.SetTrue(c, noon.Add(-time.Hour))
	}
	inner := fakeapi.New(t, node, claim).Build()
	reboots := &apply.Reboots{Client: inner, Now: func() time.Time { return noon }}
	bound := cluster.Bound{IsSet: true, Within: time.Minute}
	if err := reboots.Request(t.Context(), &plan.Reboot{Claim: "c1", Condition: "GPUReady", Cause: "XID46", Bound: bound}); err != nil {
		t.Fatal(err)
	}
	writes := 0
	lost := func() error {
		if writes++; writes == losing {
			return errors.New("connection reset")
		}
		return nil
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := lost(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := lost(); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := lost(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}), inner
}

// run reconciles the claim every ten seconds, by a new process each time if it is asked for.
func run(t *testing.T, api client.Client, provider *rebooting, registry *prometheus.Registry, anew bool, rounds int) {
	t.Helper()
	now := noon
	metrics := observe.NewMetrics(registry)
	var c *Controller
	for range rounds {
		if c == nil || anew {
			clock := func() time.Time { return now }
			c = &Controller{
				Client: api, Cloud: observe.Measured(provider, controllerName, metrics, clock), Now: clock, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
				Events: observe.NewRecorder(record.NewFakeRecorder(100), clock), Evict: func(apply.Eviction) {},
			}
		}
		_, _ = c.controller().Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "c1"}}) // a lost write is an error of its own
		now = now.Add(10 * time.Second)
	}
}

// TestARebootIsFinishedWhateverIsLost loses one write after the other, with a controller that lives and
// with one that is killed after each reconcile.
func TestARebootIsFinishedWhateverIsLost(t *testing.T) {
	t.Parallel()
	for losing := range 12 {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, killed: %t", losing, anew), func(t *testing.T) {
				t.Parallel()
				api, reliable := server(t, losing)
				provider, registry := &rebooting{api: reliable}, prometheus.NewRegistry()
				run(t, api, provider, registry, anew, 6)
				if provider.boots != 1 {
					t.Errorf("the instance booted %d times, want once", provider.boots)
				}
				if got := state(t, reliable); got != "Rebooting=False RebootSucceeded, Initialized=Unknown, node is boot-1" {
					t.Error("in the end: " + got)
				}
				if got := testkit.Gathered(t, registry, "karpenter_nodes_reboots"); got["_total{succeeded}"] != 1 && losing == 0 {
					t.Errorf("counted %v, want one success", got)
				}
			})
		}
	}
}

// state returns the claim and its Node as text.
func state(t *testing.T, api client.Client) string {
	t.Helper()
	var claim karpenterv1.NodeClaim
	var node corev1.Node
	if err := errors.Join(api.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim), api.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node)); err != nil {
		t.Fatal(err)
	}
	set := condition.ForNodeClaim(&claim)
	rebooting := set.Get(core.Rebooting)
	text := fmt.Sprintf("Rebooting=%s %s, Initialized=%s, node is %s", rebooting.Status, rebooting.Reason, set.Get(core.Initialized).Status, node.Status.NodeInfo.BootID)
	if c := set.Get(karpenterv1.ConditionTypeDisruptionReason); c.Status != "" {
		text += ", DisruptionReason=" + c.Reason
	}
	for _, taint := range node.Spec.Taints {
		text += ", taint " + taint.Key
	}
	if node.Labels[karpenterv1.NodeInitializedLabelKey] != "" {
		text += ", initialized"
	}
	for key, value := range claim.Annotations {
		text += ", " + key + "=" + value
	}
	if claim.DeletionTimestamp != nil {
		text += ", deleting"
	}
	return text
}

// TestAFailedRebootGivesTheClaimUp: its pods go to other nodes, and the drain takes no longer than the
// one before the reboot would have.
func TestAFailedRebootGivesTheClaimUp(t *testing.T) {
	t.Parallel()
	away := errors.New("request timed out")
	for name, c := range map[string]struct {
		provider rebooting
		rounds   int
		deadline time.Duration // after noon
		result   string
	}{
		"the cloud refuses":                  {rebooting{answers: []error{fmt.Errorf("no permission: %w", cloud.ErrRebootRefused)}}, 4, time.Minute + 10*time.Second, "provider_error"},
		"there is no such instance":          {rebooting{answers: []error{away, fmt.Errorf("test://1: %w", cloud.ErrNotFound)}}, 4, time.Minute + 20*time.Second, "provider_error"},
		"the cloud is away for five minutes": {rebooting{answers: []error{away}}, 40, 6*time.Minute + 10*time.Second, "provider_error"},
		"the node does not come back":        {rebooting{never: true}, 130, 21*time.Minute + 10*time.Second, "recovery_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, reliable := server(t, 0)
			provider, registry := c.provider, prometheus.NewRegistry()
			provider.api = reliable
			run(t, api, &provider, registry, false, c.rounds)
			var claim karpenterv1.NodeClaim
			if err := reliable.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
				t.Fatal(err)
			}
			want := noon.Add(c.deadline).Format(time.RFC3339)
			if got := claim.Annotations[karpenterv1.NodeClaimTerminationTimestampAnnotationKey]; claim.DeletionTimestamp == nil || got != want {
				t.Errorf("the claim is deleted at %v with deadline %q, want %q", claim.DeletionTimestamp, got, want)
			}
			var node corev1.Node
			if err := reliable.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil || len(node.Spec.Taints) > 0 {
				t.Errorf("the node has taints %v, %v", node.Spec.Taints, err)
			}
			if diff := cmp.Diff(map[string]float64{"total{" + c.result + "}": 1}, testkit.Gathered(t, registry, "karpenter_nodes_reboots_")); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestABoundThatCannotBeReadKeepsTheNode: nobody knows what its pods were promised.
func TestABoundThatCannotBeReadKeepsTheNode(t *testing.T) {
	t.Parallel()
	api, reliable := server(t, 0)
	var claim karpenterv1.NodeClaim
	if err := reliable.Get(t.Context(), client.ObjectKey{Name: "c1"}, &claim); err != nil {
		t.Fatal(err)
	}
	claim.Annotations[karpenterv1.RebootGraceAnnotationKey] = "soon"
	if err := reliable.Update(t.Context(), &claim); err != nil {
		t.Fatal(err)
	}
	provider := &rebooting{api: reliable}
	run(t, api, provider, prometheus.NewRegistry(), false, 3)
	const want = "Rebooting=False RebootFailed, Initialized=True, node is boot-0, initialized, karpenter.sh/reboot-termination-grace-period=soon"
	if got := state(t, reliable); got != want {
		t.Errorf("in the end: %s, want %s", got, want)
	}
}
