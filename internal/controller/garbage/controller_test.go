package garbage_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/garbage"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
)

var sweepNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// listedCloud has the instances that it is given, and remembers which were terminated.
type listedCloud struct {
	cloud.Provider
	instances []cloud.Instance
	err       error

	mu         sync.Mutex
	terminated []string
}

func (c *listedCloud) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Group: "g.test", Version: "v1", Kind: "Class"}}
}

func (c *listedCloud) List(context.Context) ([]cloud.Instance, error) { return c.instances, c.err }

func (c *listedCloud) Terminate(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminated = append(c.terminated, id)
	return cloud.ErrNotFound
}

// claimOf returns a registered claim of our class with that instance.
func claimOf(instance string, change ...func(*karpenterv1.NodeClaim)) *karpenterv1.NodeClaim {
	c := &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "uid-1", Finalizers: []string{karpenterv1.TerminationFinalizer}},
		Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: "g.test", Kind: "Class", Name: "default"}},
	}
	c.Status.ProviderID = instance
	c.Status.Conditions = []metav1.Condition{{Type: karpenterv1.ConditionTypeRegistered, Status: metav1.ConditionTrue}}
	for _, f := range change {
		f(c)
	}
	return c
}

// nodeOf returns a Node of instance i-1.
func nodeOf(ready corev1.ConditionStatus, finalizers ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID("uid-n1"), Finalizers: finalizers},
		Spec:       corev1.NodeSpec{ProviderID: "i-1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func unlaunched(c *karpenterv1.NodeClaim) {
	c.Status = karpenterv1.NodeClaimStatus{}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	old := sweepNow.Add(-time.Minute)
	for name, tt := range map[string]struct {
		objects   []client.Object
		instances []cloud.Instance
		// want is what was deleted, and the instances that were terminated.
		want []string
	}{
		"a claim and its instance are left alone": {
			objects: []client.Object{claimOf("i-1")}, instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: old}},
		},
		"an instance that is not on record yet is known by its token": {
			objects: []client.Object{claimOf("", unlaunched)}, instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: old}},
		},
		"or, without a token, by the claim's name": {
			objects: []client.Object{claimOf("", unlaunched)}, instances: []cloud.Instance{{ID: "i-1", Claim: "c1", Created: old}},
		},
		"an instance on record is the claim's, whoever it was launched for": {
			objects: []client.Object{claimOf("i-1")}, instances: []cloud.Instance{{ID: "i-1", Token: "uid-0", Created: old}},
		},
		"an instance without a claim goes": {
			instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Claim: "c1", Created: old}}, want: []string{"i-1"},
		},
		"a second instance of a claim goes": {
			objects:   []client.Object{claimOf("i-1")},
			instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: old}, {ID: "i-2", Token: "uid-1", Created: old}},
			want:      []string{"i-2"},
		},
		"the instance of an earlier claim of the name goes": {
			objects: []client.Object{claimOf("", unlaunched)}, instances: []cloud.Instance{{ID: "i-1", Token: "uid-0", Claim: "c1", Created: old}},
			want: []string{"i-1"},
		},
		"an instance under the ID that it had before its provider ID is the claim's": {
			objects: []client.Object{claimOf("i-1"), nodeOf(corev1.ConditionUnknown)}, instances: []cloud.Instance{{ID: "order-1", Provisional: true, Token: "uid-1", Created: old}},
		},
		"one whose claim is gone goes": {
			instances: []cloud.Instance{{ID: "order-1", Provisional: true, Token: "uid-1", Created: old}}, want: []string{"order-1"},
		},
		"a young instance stays": {
			instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: sweepNow.Add(-29 * time.Second)}},
		},
		"one on its way out is not hurried": {
			instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: old, Terminating: true}},
		},
		"an instance with a registered Node drains first": {
			objects:   []client.Object{nodeOf(corev1.ConditionTrue, karpenterv1.TerminationFinalizer)},
			instances: []cloud.Instance{{ID: "i-1", Created: old}}, want: []string{"node n1"},
		},
		"one with a Node that never registered does not": {
			objects:   []client.Object{nodeOf(corev1.ConditionTrue)},
			instances: []cloud.Instance{{ID: "i-1", Created: old}}, want: []string{"i-1"},
		},
		"a claim whose instance is gone goes": {
			objects: []client.Object{claimOf("i-1"), nodeOf(corev1.ConditionUnknown)}, want: []string{"claim c1"},
		},
		"a claim whose instance is on its way out goes": {
			objects: []client.Object{claimOf("i-1")}, instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: old, Terminating: true}},
			want: []string{"claim c1"},
		},
		"not if its Node is alive: the list may be behind": {
			objects: []client.Object{claimOf("i-1"), nodeOf(corev1.ConditionTrue)},
		},
		"nor if it has not registered: it has time-outs of its own": {
			objects: []client.Object{claimOf("", unlaunched)},
		},
		"nor if it is somebody else's": {
			objects: []client.Object{claimOf("i-1", func(c *karpenterv1.NodeClaim) { c.Spec.NodeClassRef.Kind = "Other" })},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := &listedCloud{instances: tt.instances}
			c := apiServer(t, tt.objects...)
			if err := loop(c, c, provider).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, removed(t, c, provider, tt.objects)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSweepTouchesNothingWhenItCannotSee is about the sweep's two eyes.
func TestSweepTouchesNothingWhenItCannotSee(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	objects := []client.Object{claimOf("i-0")}
	t.Run("the cloud does not answer", func(t *testing.T) {
		t.Parallel()
		provider, c := &listedCloud{err: away}, apiServer(t, objects...)
		if err := loop(c, c, provider).Sweep(t.Context()); !errors.Is(err, away) {
			t.Errorf("err = %v, want %v", err, away)
		}
		if got := removed(t, c, provider, objects); got != nil {
			t.Errorf("removed %v", got)
		}
	})
	t.Run("the API server does not answer", func(t *testing.T) {
		t.Parallel()
		provider := &listedCloud{instances: []cloud.Instance{{ID: "i-1", Token: "uid-1"}}}
		c := apiServer(t, objects...)
		blind := interceptor.NewClient(c, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away },
		})
		if err := loop(c, blind, provider).Sweep(t.Context()); !errors.Is(err, away) {
			t.Errorf("err = %v, want %v", err, away)
		}
		if got := removed(t, c, provider, objects); got != nil {
			t.Errorf("removed %v", got)
		}
	})
}

// TestSweepBelievesNoCache: a cache that is behind does not end an instance, and where it shows nothing to do the API
// server is not asked for every claim.
func TestSweepBelievesNoCache(t *testing.T) {
	t.Parallel()
	asked := 0
	server := func(objects ...client.Object) client.Client {
		return interceptor.NewClient(apiServer(t, objects...), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				asked++
				return c.List(ctx, list, opts...)
			},
		})
	}
	provider := &listedCloud{instances: []cloud.Instance{{ID: "i-1", Token: "uid-1", Created: sweepNow.Add(-time.Minute)}}}
	for _, tt := range []struct {
		what           string
		cached, served []client.Object
		asked          int
	}{
		{"the cache has no claim yet", nil, []client.Object{claimOf("i-1")}, 1},
		{"both have it", []client.Object{claimOf("i-1")}, []client.Object{claimOf("i-1")}, 0},
	} {
		asked = 0
		if err := loop(apiServer(t, tt.cached...), server(tt.served...), provider).Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked != tt.asked || len(provider.terminated) > 0 {
			t.Errorf("%s: the API server was asked %d times, want %d; terminated %v, want none", tt.what, asked, tt.asked, provider.terminated)
		}
	}
}

// TestTheFirstSweepWaits: the first decision comes before the instances are read, or ten seconds have passed; the sweeps
// after that have their period.
func TestTheFirstSweepWaits(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct{ begun, first time.Duration }{
		"a decision after three seconds": {begun: 3 * time.Second, first: 3 * time.Second},
		"no decision for an hour":        {begun: time.Hour, first: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			provider, begun := &countingCloud{}, make(chan struct{})
			collector := loop(apiServer(t), nil, provider)
			collector.After = begun
			time.AfterFunc(tt.begun, func() { close(begun) })
			ctx, stop := context.WithCancel(t.Context())
			go func() { _ = collector.Start(ctx) }()
			for _, step := range []struct {
				after  time.Duration
				listed int32
			}{{tt.first - time.Second, 0}, {time.Second, 1}, {2*time.Minute - time.Second, 1}, {time.Second, 2}} {
				time.Sleep(step.after)
				synctest.Wait()
				if got := provider.listed.Load(); got != step.listed {
					t.Errorf("%s: %v later the instances were read %d times, want %d", what, step.after, got, step.listed)
				}
			}
			stop()
		})
	}
}

// countingCloud counts how often it was asked for its instances.
type countingCloud struct {
	listedCloud
	listed atomic.Int32
}

func (c *countingCloud) List(context.Context) ([]cloud.Instance, error) {
	c.listed.Add(1)
	return nil, nil
}

func loop(c client.Client, uncached client.Reader, provider cloud.Provider) *garbage.Loop {
	return &garbage.Loop{
		Client: c, Uncached: uncached, Cloud: provider, Now: func() time.Time { return sweepNow },
		Metrics: observe.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	}
}

func apiServer(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fakeapi.New(t, objects...).Build()
}

// removed returns what a sweep took away.
func removed(t *testing.T, c client.Client, provider *listedCloud, objects []client.Object) []string {
	t.Helper()
	var names []string
	for _, o := range objects {
		kind := "claim "
		if _, isNode := o.(*corev1.Node); isNode {
			kind = "node "
		}
		now := o.DeepCopyObject().(client.Object)
		err := c.Get(t.Context(), client.ObjectKeyFromObject(o), now)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if err != nil || now.GetDeletionTimestamp() != nil {
			names = append(names, kind+o.GetName())
		}
	}
	slices.Sort(provider.terminated)
	return append(names, provider.terminated...)
}
