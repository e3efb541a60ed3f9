package remote_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// TestTheWireChangesNoVerdict runs the suite on kwok twice: in process, and behind the protocol on a
// unix socket.
func TestTheWireChangesNoVerdict(t *testing.T) {
	t.Parallel()
	passed := 0
	for _, test := range cloudtest.Tests() {
		inProcess := func(t cloudtest.T, c client.Client) cloud.Provider { return newKWOK(t, c) }
		overWire := func(ct cloudtest.T, c client.Client) cloud.Provider {
			return connect(ct, listen(ct, t, serve.New(newKWOK(ct, c), serve.Options{Epoch: epoch(), ClusterUID: here.UID, IDPrefix: "kwok://"})), c)
		}
		verdict := func(provider func(cloudtest.T, client.Client) cloud.Provider) cloudtest.Result {
			c := fakeCluster(t)
			return cloudtest.Check(t.Context(), test.Name, func(t cloudtest.T) { test.Run(t, harness(t, c, provider)) })
		}
		want, got := verdict(inProcess), verdict(overWire)
		if want.Verdict != got.Verdict || got.Verdict == cloudtest.Failed {
			t.Errorf("%s: in process %s %q, over the wire %s %q", test.Name, want.Verdict, want.Why, got.Verdict, got.Why)
		}
		if got.Verdict == cloudtest.Passed {
			passed++
		}
	}
	const lacks = 7 // tests of what kwok does not have: launches that are decided later, changes of types, drift, conditions that are notices
	if passed != len(cloudtest.Tests())-lacks {
		t.Errorf("%d of %d tests passed, want all but %d", passed, len(cloudtest.Tests()), lacks)
	}
}

// TestConformanceOnACluster runs the suite behind the protocol against a real API server, where KWOK
// plays the kubelets.
func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		h := harness(t, c, func(ct cloudtest.T, c client.Client) cloud.Provider {
			return connect(ct, listen(ct, t, serve.New(newKWOK(ct, c), serve.Options{Epoch: epoch(), ClusterUID: here.UID, IDPrefix: "kwok://"})), c)
		})
		h.Node = func(t cloudtest.T, id string) *corev1.Node {
			return cloudtest.ReadyNode(t, c, strings.TrimPrefix(id, "kwok://"))
		}
		return h
	})
}

func harness(t cloudtest.T, c client.Client, provider func(cloudtest.T, client.Client) cloud.Provider) cloudtest.Harness {
	ref := func(name string) cloud.ClassRef {
		return cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: name}
	}
	return cloudtest.Harness{
		Provider: provider(t, c),
		Restart:  func(t cloudtest.T) cloud.Provider { return provider(t, c) },
		Class:    ref("default"), Missing: ref("missing"), Unready: ref("unready"), Slow: ref("slow"),
		Node: nodeOf(c),
	}
}

func newKWOK(t cloudtest.T, c client.Client) *kwok.Provider {
	p, err := kwok.New(c, kwok.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var epochs atomic.Int64

// epoch names another run of a server.
func epoch() string { return fmt.Sprintf("run-%d", epochs.Add(1)) }

// registrar is what a server of the protocol is here.
type registrar interface{ Register(g grpc.ServiceRegistrar) }

// listen serves the protocol on a unix socket until the test ends, and returns its address.
func listen(t cloudtest.T, dirs interface{ TempDir() string }, s registrar) string {
	address := "unix://" + filepath.Join(dirs.TempDir(), "p.sock")
	stop := listenOn(t, address, s)
	t.Cleanup(stop)
	return address
}

// listenOn serves the protocol at an address until stop is called.
func listenOn(t cloudtest.T, address string, s registrar) (stop func()) {
	l, err := serve.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	s.Register(g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	return func() { g.Stop(); <-done }
}

var here = remote.Cluster{Name: "test", UID: "0b7c3c1e-5d2b-4f7f-9d6c-0e8f7a1b2c3d"}

// connect returns the provider at an address; class objects are read from c.
func connect(t cloudtest.T, address string, c client.Reader, change ...func(*remote.Options)) cloud.Provider {
	opts := remote.Options{Address: address, Cluster: here, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&opts)
	}
	link, err := remote.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	d, err := link.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := remote.New(link, d, c, nil)
	t.Cleanup(func() {
		p.(interface{ Close() }).Close()
		_ = link.Close()
	})
	return p
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func classes() []*kwokv1alpha1.KWOKNodeClass {
	slow := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}
	slow.Spec.NodeRegistrationDelay = &metav1.Duration{Duration: time.Hour}
	return []*kwokv1alpha1.KWOKNodeClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		slow,
		{ObjectMeta: metav1.ObjectMeta{Name: "unready"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "accepts"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "fails"}},
	}
}

var notReady = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NotToday", Message: "not today", LastTransitionTime: metav1.Unix(1, 0)}}

// fakeCluster is an API server in memory with the classes of the suite.
func fakeCluster(t testing.TB) client.Client {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(&corev1.Node{})
	for _, class := range classes() {
		if class.Name == "unready" {
			class.Status.Conditions = notReady
		}
		b = b.WithObjects(class)
	}
	return b.WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		switch o.(type) { // which a real API server would date
		case *corev1.Node, *coordinationv1.Lease:
			o.SetCreationTimestamp(metav1.Now())
		}
		return c.Create(ctx, o, opts...)
	}}).Build()
}

// realCluster is a dev cluster with the classes of the suite.
func realCluster(t *testing.T) client.Client {
	t.Helper()
	devcluster := testkit.StartCluster(t)
	if _, err := envtest.InstallCRDs(devcluster.Config, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(devcluster.Config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range classes() {
		if err := c.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if class.Name == "unready" {
			class.Status.Conditions = notReady
			if err := c.Status().Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}
