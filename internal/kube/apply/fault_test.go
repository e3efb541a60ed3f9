package apply_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

var roadStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fault makes one write of many go wrong.
type fault struct {
	writes int
	// at is the write that goes wrong, counted from 1; 0: none. So do those after it up to until.
	at, until int
	// lost: the write is done and its answer lost. Otherwise it is not done.
	lost bool
	// refusal is the answer to the writes after the first that goes wrong, which are not done; nil: they go wrong as it does.
	refusal error
	// before is called ahead of the write, and the write is let through.
	before func()
}

func (f *fault) around(write func() error) error {
	f.writes++
	if f.writes != f.at && (f.writes < f.at || f.writes > f.until) {
		return write()
	}
	if f.before != nil {
		f.before()
		return write()
	}
	if f.writes > f.at && f.refusal != nil {
		return f.refusal
	}
	if f.lost {
		if err := write(); err != nil && f.until == 0 {
			return err
		}
	}
	return errors.New("connection reset")
}

// server is an API server with one claim and its Node, and a fault in it.
func server(t *testing.T, f *fault) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	created := metav1.NewTime(roadStart)
	claim := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "c1-uid", CreationTimestamp: created, Labels: map[string]string{"team": "a", "zone": "mine"}},
		Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef:  &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"},
			Taints:        []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}},
		},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1-uid", CreationTimestamp: created, Labels: map[string]string{"own": "label"}},
		Spec:       corev1.NodeSpec{ProviderID: "i-1", Taints: []corev1.Taint{karpenterv1.UnregisteredTaint()}},
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim, node).WithStatusSubresource(claim).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				return f.around(func() error { return c.Create(ctx, obj, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				return f.around(func() error { return c.Patch(ctx, obj, patch, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				return f.around(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
			},
		}).Build()
}

// world reads the claim and the Node.
func world(t *testing.T, c client.Client) (*karpenterv1.NodeClaim, *corev1.Node) {
	t.Helper()
	claim, node := &karpenterv1.NodeClaim{}, &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "c1"}, claim); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, node); err != nil {
		t.Fatal(err)
	}
	return claim, node
}

// road performs the actions of a claim's life from one on, each on what the one before
// left, from a fresh look. It stops at the first error and says where.
func road(t *testing.T, c client.Client, from, times int) (at int, err error) {
	t.Helper()
	ctx, claim, node := t.Context(), &karpenterv1.NodeClaim{}, &corev1.Node{}
	instance := &cloud.Instance{
		ID: "i-1", ImageID: "image-1", Labels: map[string]string{"zone": "theirs", "type": "big"},
		Annotations: map[string]string{"token": "t"}, Capacity: quantity.List{"cpu": 4000}, Allocatable: quantity.List{"cpu": 3900},
	}
	registered := &lifecycle.Step{Node: "n1", Notes: []lifecycle.Note{{Type: lifecycle.Registered, Status: lifecycle.True}}}
	initialized := &lifecycle.Step{Notes: []lifecycle.Note{{Type: lifecycle.Initialized, Status: lifecycle.True}}}
	acts := []func() error{
		func() error { return apply.AdoptClaim(ctx, c, claim) },
		func() error { return apply.RecordLaunch(ctx, c, claim, instance, roadStart.Add(time.Minute)) },
		func() error { return apply.RegisterNode(ctx, c, node, claim) },
		func() error {
			_, err := apply.WriteNotes(ctx, c, claim, registered, roadStart.Add(2*time.Minute))
			return err
		},
		func() error { return apply.InitializeNode(ctx, c, node) },
		func() error {
			_, err := apply.WriteNotes(ctx, c, claim, initialized, roadStart.Add(3*time.Minute))
			return err
		},
		func() error { return apply.SetDeadline(ctx, c, claim, roadStart.Add(time.Hour)) },
		func() error { return apply.CloseNode(ctx, c, node) },
	}
	for at := from; at < len(acts); at++ {
		for range times {
			claim, node = world(t, c)
			if err := acts[at](); err != nil {
				return at, err
			}
		}
	}
	return len(acts), nil
}

func TestEveryActionMayBeRepeated(t *testing.T) {
	t.Parallel()
	calm := &fault{}
	c := server(t, calm)
	if _, err := road(t, c, 0, 1); err != nil {
		t.Fatal(err)
	}
	wantClaim, wantNode := world(t, c)
	twice := &fault{}
	if _, err := road(t, server(t, twice), 0, 2); err != nil {
		t.Fatal(err)
	}
	if twice.writes != calm.writes {
		t.Errorf("every act twice is %d writes, want the %d of every act once", twice.writes, calm.writes)
	}
	version := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion")
	for n := 1; n <= calm.writes; n++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, answer lost %t", n, lost), func(t *testing.T) {
				t.Parallel()
				c := server(t, &fault{at: n, lost: lost})
				at, err := road(t, c, 0, 1)
				if err == nil {
					t.Fatal("the fault did not show")
				}
				if _, err := road(t, c, at, 1); err != nil {
					t.Fatalf("the second time: %v", err)
				}
				claim, node := world(t, c)
				if diff := cmp.Diff(wantClaim, claim, version); diff != "" {
					t.Errorf("claim (-undisturbed +got):\n%s", diff)
				}
				if diff := cmp.Diff(wantNode, node, version); diff != "" {
					t.Errorf("node (-undisturbed +got):\n%s", diff)
				}
			})
		}
	}
	t.Run("the result is as published", func(t *testing.T) {
		t.Parallel()
		labels := map[string]string{"team": "a", "zone": "mine", "type": "big", "g.test/class": "default"}
		if diff := cmp.Diff(labels, wantClaim.Labels); diff != "" {
			t.Errorf("claim's labels (-want +got):\n%s", diff)
		}
		for k, v := range map[string]string{
			"own": "label", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
			"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter",
		} {
			labels[k] = v
		}
		if diff := cmp.Diff(labels, wantNode.Labels); diff != "" {
			t.Errorf("node's labels (-want +got):\n%s", diff)
		}
		taints := []corev1.Taint{
			{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule},
			{Key: "cni", Effect: corev1.TaintEffectNoExecute},
			{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule},
		}
		if diff := cmp.Diff(taints, wantNode.Spec.Taints); diff != "" {
			t.Errorf("node's taints (-want +got):\n%s", diff)
		}
		if got := wantClaim.Annotations["karpenter.sh/nodeclaim-termination-timestamp"]; got != "2026-11-20T13:00:00Z" {
			t.Errorf("deadline is %q", got)
		}
	})
}

// TestWritesOfOthersAreNotLost has somebody else write just before each of our writes.
func TestWritesOfOthersAreNotLost(t *testing.T) {
	t.Parallel()
	calm := &fault{}
	if _, err := road(t, server(t, calm), 0, 1); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= calm.writes; n++ {
		t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
			t.Parallel()
			f := &fault{at: n}
			c := server(t, f)
			f.before = func() {
				f.before = nil
				claim, node := world(t, c)
				claim.Annotations = map[string]string{"theirs": "kept"}
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectNoSchedule})
				if err := errors.Join(c.Update(t.Context(), claim), c.Update(t.Context(), node)); err != nil {
					t.Errorf("their write: %v", err)
				}
			}
			at, err := road(t, c, 0, 1)
			if !apply.IsStale(err) {
				t.Fatalf("err = %v, want a conflict", err)
			}
			if _, err := road(t, c, at, 1); err != nil {
				t.Fatalf("the second time: %v", err)
			}
			claim, node := world(t, c)
			if claim.Annotations["theirs"] != "kept" {
				t.Errorf("their annotation is lost: %v", claim.Annotations)
			}
			kept := false
			for _, taint := range node.Spec.Taints {
				kept = kept || taint.Key == "theirs"
			}
			if !kept {
				t.Errorf("their taint is lost: %v", node.Spec.Taints)
			}
		})
	}
}
