package candidacy

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// patience is far less than the time after which a claim is reconciled without a trigger.
const patience = time.Minute

// seerOfEC2 is a cloud with node classes of EC2, which counts what it is asked.
type seerOfEC2 struct {
	seer
	asked chan string
}

func (s *seerOfEC2) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{awsv1.GroupVersion.WithKind("EC2NodeClass")}
}

func (s *seerOfEC2) Drifted(_ context.Context, class cloud.ClassRef, _ string) (string, error) {
	s.asked <- class.Name
	return "NodeClassDrift", nil
}

// lockedInformer is a fake informer whose handlers may be added while it reports changes.
type lockedInformer struct {
	*controllertest.FakeInformer
	mu sync.Mutex
}

func (i *lockedInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.FakeInformer.AddEventHandlerWithOptions(h, o)
}

func (i *lockedInformer) Update(was, is metav1.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.FakeInformer.Update(was, is)
}

// TestChangedClassIsSeenAtOnce edits a node class while the loop runs: the claims of that
// class, and no others, are looked at and Drifted, without waiting for their turn.
func TestChangedClassIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{karpenterv1.AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pool := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool, claimOf("mine", "edited"), claimOf("other", "untouched")).
		WithStatusSubresource(&karpenterv1.NodeClaim{}).Build()
	classes := &lockedInformer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced)}
	informers := &informertest.FakeInformers{Scheme: scheme, InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		karpenterv1.GroupVersion.WithKind("NodeClaim"): controllertest.NewFakeInformer(controllertest.Synced),
		karpenterv1.GroupVersion.WithKind("NodePool"):  controllertest.NewFakeInformer(controllertest.Synced),
		awsv1.GroupVersion.WithKind("EC2NodeClass"):    classes,
	}}
	skip := true
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: &skip},
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return informers, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	provider := &seerOfEC2{asked: make(chan string, 100)}
	loop := &Controller{
		Client: c, Cloud: provider, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler),
		Types: func(cloud.ClassRef) ([]*catalog.Type, error) { return nil, cloud.ErrNotFound },
	}
	if err := loop.Register(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-mgr.Elected()

	before := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "edited", Generation: 1}}
	after := before.DeepCopy()
	after.Generation = 2
	testkit.Eventually(t, patience, func() error {
		classes.Update(before, after) // lost while the watch has not begun
		var claim karpenterv1.NodeClaim
		if err := c.Get(ctx, client.ObjectKey{Name: "mine"}, &claim); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(claim.Status.Conditions, karpenterv1.ConditionTypeDrifted) {
			return fmt.Errorf("conditions %v", claim.Status.Conditions)
		}
		return nil
	})
	stop()
	var asked []string
	for len(provider.asked) > 0 {
		asked = append(asked, <-provider.asked)
	}
	slices.Sort(asked)
	if diff := cmp.Diff([]string{"edited"}, slices.Compact(asked)); diff != "" {
		t.Errorf("classes asked about (-want +got):\n%s", diff)
	}
}

func claimOf(name, class string) *karpenterv1.NodeClaim {
	launched := metav1.Condition{Type: karpenterv1.ConditionTypeLaunched, Status: metav1.ConditionTrue, Reason: "Launched", LastTransitionTime: metav1.NewTime(noon)}
	return &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpenterv1.NodePoolLabelKey: "p"}},
		Spec:       karpenterv1.NodeClaimSpec{NodeClassRef: &karpenterv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: class}},
		Status:     karpenterv1.NodeClaimStatus{ProviderID: "aws:///a/" + name, Conditions: []metav1.Condition{launched}},
	}
}

// TestWhichChangesOfAClassMatter lets through changes that may make nodes drift.
func TestWhichChangesOfAClassMatter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*awsv1.EC2NodeClass)
		want   bool
	}{
		"nothing":     {func(*awsv1.EC2NodeClass) {}, false},
		"a condition": {func(c *awsv1.EC2NodeClass) { c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}} }, false},
		"the spec":    {func(c *awsv1.EC2NodeClass) { c.Generation++ }, true},
		"a hash":      {func(c *awsv1.EC2NodeClass) { c.Annotations = map[string]string{awsv1.AnnotationHash: "1"} }, true},
		"an image":    {func(c *awsv1.EC2NodeClass) { c.Status.AMIs = []awsv1.AMI{{ID: "ami-1"}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1}}
			is := was.DeepCopy()
			tc.change(is)
			if got := classChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tc.want {
				t.Errorf("let through: %t, want %t", got, tc.want)
			}
		})
	}
}
