package remote_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// shop is a provider in memory whose prices can be changed.
type shop struct {
	cloud.Provider
	mu    sync.Mutex
	types []*catalog.Type
	calls int
}

// large is a shop with 1,000 types of 12 offerings and 20 requirements.
func large() *shop {
	s := &shop{}
	for i := range 1000 {
		t := &catalog.Type{
			Name: fmt.Sprintf("type-%04d", i), Requirements: label.Requirements{},
			Capacity: quantity.List{quantity.CPU: int64(i+1) * 1000, quantity.Memory: int64(i+1) << 30, quantity.Pods: 110},
			Overhead: quantity.List{quantity.CPU: 100},
		}
		for k := range 20 {
			t.Requirements[fmt.Sprintf("example.com/key-%02d", k)] = label.In(fmt.Sprintf("value-%d", i%7))
		}
		for z := range 6 {
			for _, c := range []string{label.Spot, label.OnDemand} {
				t.Offerings = append(t.Offerings, catalog.Offering{Zone: fmt.Sprintf("zone-%d", z), CapacityType: c, PriceHourly: float64(i), Priced: true, Available: true})
			}
		}
		s.types = append(s.types, t)
	}
	return s
}

func (*shop) Name() string                 { return "shop" }
func (*shop) Vocabulary() cloud.Vocabulary { return cloud.Vocabulary{} }
func (*shop) ClassKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")}
}

func (s *shop) Types(context.Context, cloud.ClassRef) ([]*catalog.Type, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.types, nil
}

// reprice changes the price of one offering.
func (s *shop) reprice(price float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types = slices.Clone(s.types)
	own := *s.types[500]
	own.Offerings = slices.Clone(own.Offerings)
	own.Offerings[3].PriceHourly = price
	s.types[500] = &own
}

func (*shop) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	out := make([]cloud.LaunchResult, len(requests))
	for i, r := range requests {
		out[i].Instance = cloud.Instance{ID: "shop://" + r.Token, Token: r.Token, Claim: r.Claim, Labels: map[string]string{label.InstanceType: r.Choices[0].Type.Name}}
	}
	return out
}

var shopClass = cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}

// TestAChangedPriceCostsOneSmallPage follows 1,000 types: a price that changes is seen without another
// snapshot, in a page below 10 kB, and the types that stayed as they were are the same values.
func TestAChangedPriceCostsOneSmallPage(t *testing.T) {
	t.Parallel()
	s := large()
	var mu sync.Mutex
	snapshots, bytes := 0, 0
	l := &liar{Server: serve.New(s, serve.Options{Epoch: epoch(), Poll: 10 * time.Millisecond})}
	l.catalog = func(p *providerv1.CatalogPage) {
		mu.Lock()
		defer mu.Unlock()
		if p.GetReset_() {
			snapshots++
		}
		if len(p.GetTypes()) == 0 {
			bytes += proto.Size(p)
		}
	}
	p := connect(t, listen(t, t, l), fakeCluster(t))
	before, err := p.Types(t.Context(), shopClass)
	if err != nil || len(before) != 1000 || len(before[0].Offerings) != 12 {
		t.Fatalf("%d types, %v", len(before), err)
	}
	s.reprice(7.5)
	var after []*catalog.Type
	eventually(t, func() bool {
		after, err = p.Types(t.Context(), shopClass)
		return err == nil && after[500].Offerings[3].PriceHourly == 7.5
	})
	for i := range before {
		if i != 500 && before[i] != after[i] {
			t.Fatalf("type %s did not change and is another value", before[i].Name)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if snapshots != 1 || bytes > 10_000 {
		t.Errorf("%d snapshots, %d bytes of changes; want one and at most 10,000", snapshots, bytes)
	}
}

// BenchmarkFollow is from a change of one price in a provider with 1,000 types of 12 offerings, which says so, until Types returns
// it. The bytes are all that the server sent, HTTP/2 included.
func BenchmarkFollow(b *testing.B) {
	onEachWire(b, func(b *testing.B, w benchWire) {
		s := &teller{shop: large()}
		p := w.provider(b, s)
		changed := make(chan struct{}, 1)
		p.(cloud.TypesChanger).OnTypesChanged(func(cloud.ClassRef) { changed <- struct{}{} })
		if _, err := p.Types(b.Context(), shopClass); err != nil {
			b.Fatal(err)
		}
		<-changed
		var took []time.Duration
		price, before := 1.0, w.sent.Load()
		for b.Loop() {
			price++
			began := time.Now()
			s.reprice(price)
			<-changed
			types, err := p.Types(b.Context(), shopClass)
			if err != nil || types[500].Offerings[3].PriceHourly != price {
				b.Fatalf("price %v, error %v; want %v", types[500].Offerings[3].PriceHourly, err, price)
			}
			took = append(took, time.Since(began))
		}
		b.ReportMetric(float64(w.sent.Load()-before)/float64(len(took)), "wire-B/op")
		reportTimes(b, took)
	})
}

// BenchmarkLaunch launches one instance with 60 offerings, from a provider that answers at once: what it takes the wire adds.
func BenchmarkLaunch(b *testing.B) {
	onEachWire(b, benchmarkLaunch)
}

func benchmarkLaunch(b *testing.B, w benchWire) {
	p := w.provider(b, large())
	types, err := p.Types(b.Context(), shopClass)
	if err != nil {
		b.Fatal(err)
	}
	r := cloud.LaunchRequest{Claim: "claim", Class: shopClass, Choices: catalog.Choices(types, nil, nil)[:60], Requests: quantity.List{quantity.CPU: 100}}
	var took []time.Duration
	n := 0
	for b.Loop() {
		n++
		r.Token = fmt.Sprint("token-", n)
		began := time.Now()
		if result := p.Launch(b.Context(), []cloud.LaunchRequest{r})[0]; result.Err != nil {
			b.Fatal(result.Err)
		}
		took = append(took, time.Since(began))
	}
	reportTimes(b, took)
}

func reportTimes(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// benchWire is what a benchmark goes over, and how many bytes its server sent.
type benchWire struct {
	address string
	net.Listener
	sent *atomic.Int64
}

// onEachWire runs a benchmark over a unix socket and over TCP of this computer.
func onEachWire(b *testing.B, run func(b *testing.B, w benchWire)) {
	b.Helper()
	for name, address := range map[string]string{"unix": "unix://" + filepath.Join(b.TempDir(), "p.sock"), "tcp": "127.0.0.1:0"} {
		b.Run(name, func(b *testing.B) {
			l, err := serve.Listen(b.Context(), address)
			if err != nil {
				b.Fatal(err)
			}
			w := benchWire{address, l, &atomic.Int64{}}
			if name == "tcp" {
				w.address = "dns:///" + l.Addr().String()
			}
			run(b, w)
		})
	}
}

// Accept returns a connection whose bytes are counted.
func (w benchWire) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return countedConn{c, w.sent}, err
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// provider serves a provider, which is not asked again for its types unless it says that they have changed.
func (w benchWire) provider(b *testing.B, p cloud.Provider) cloud.Provider {
	b.Helper()
	g := grpc.NewServer()
	serve.New(p, serve.Options{Epoch: epoch(), Poll: time.Hour}).Register(g)
	go func() { _ = g.Serve(w) }() // until it is stopped
	b.Cleanup(g.Stop)
	return connect(b, w.address, fakeCluster(b), func(o *remote.Options) { o.Plaintext = true })
}
