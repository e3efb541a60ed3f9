package catalog_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	catalogloop "github.com/dovetail-sh/dovetail/internal/controller/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/testkit"
	"github.com/dovetail-sh/dovetail/internal/testkit/fakeapi"
	"github.com/dovetail-sh/dovetail/internal/testkit/rack"
)

// shop is a rack whose price can be changed, and says so.
type shop struct {
	*rack.Provider

	mu      sync.Mutex
	price   float64
	changed func(cloud.ClassRef)
}

func (s *shop) OnTypesChanged(changed func(cloud.ClassRef)) { s.changed = changed }

func (s *shop) Types(ctx context.Context, class cloud.ClassRef) ([]*catalog.Type, error) {
	types, err := s.Provider.Types(ctx, class)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range types {
		for i := range t.Offerings {
			t.Offerings[i].PriceHourly = s.price
		}
	}
	return types, err
}

func (s *shop) reprice(price float64) {
	s.mu.Lock()
	s.price = price
	s.mu.Unlock()
	s.changed(rack.Class("default"))
}

// TestAPriceOfARemoteProviderIsInTheCatalogAtOnce: in this test it never becomes time to ask again.
func TestAPriceOfARemoteProviderIsInTheCatalogAtOnce(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(rack.NewClass("default", false)).Build()
	s := &shop{Provider: rack.New(c), price: 1}
	p := serveRemotely(t, s, c)
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	store := mirror.NewStore(mirror.Options{Now: now, Manages: func(string, string) bool { return true }})
	addPool(t, store, rack.Class("default"))
	l := &catalogloop.Loop{Cloud: p, Mirror: store, Now: now, Log: slog.New(slog.DiscardHandler)}
	p.(cloud.TypesChanger).OnTypesChanged(l.Changed)
	price := func() float64 {
		l.Reconcile(t.Context())
		types, err := store.Pools().TypesOf(rack.Class("default"))
		if err != nil || len(types) == 0 {
			t.Fatalf("%d types, %v", len(types), err)
		}
		return types[0].Offerings[0].PriceHourly
	}
	if got := price(); got != 1 {
		t.Fatalf("the first price is %v, want 1", got)
	}
	s.reprice(2)
	testkit.Eventually(t, time.Minute, func() error {
		if got := price(); got != 2 {
			return fmt.Errorf("the price is %v, want 2", got)
		}
		return nil
	})
}

// addPool has a mirror know a NodePool of a class.
func addPool(t *testing.T, store *mirror.Store, class cloud.ClassRef) {
	t.Helper()
	informers := &informertest.FakeInformers{Scheme: fakeapi.New(t).Build().Scheme()}
	if _, err := store.Feed(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	pools, err := informers.FakeInformerFor(t.Context(), &karpenterv1.NodePool{})
	if err != nil {
		t.Fatal(err)
	}
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: class.Name}
	pools.Add(np)
}

// serveRemotely returns a provider that asks another one over the protocol, which nobody polls.
func serveRemotely(t *testing.T, p cloud.Provider, classes client.Reader) cloud.Provider {
	t.Helper()
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	l, err := serve.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	serve.New(p, serve.Options{Epoch: "one", Poll: time.Hour}).Register(g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	link, err := remote.Open(remote.Options{Address: address, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	d, err := link.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p = remote.New(link, d, classes, nil)
	t.Cleanup(func() {
		p.(interface{ Close() }).Close()
		_ = link.Close()
		g.Stop()
		<-done
	})
	return p
}
