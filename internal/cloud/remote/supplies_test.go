package remote_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
)

// leave has each offering draw on one supply, which has so much left.
func (s *shop) leave(supply string, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var types []*catalog.Type
	for _, t := range s.types {
		own := *t
		own.Offerings = nil
		for _, o := range t.Offerings {
			o.Draws = []catalog.Draw{{Supply: supply, Units: 2, Left: left}}
			own.Offerings = append(own.Offerings, o)
		}
		types = append(types, &own)
	}
	s.types = types
}

// named is a shop of another name.
type named struct {
	*shop
	name string
}

func (n *named) Name() string { return n.name }

// TestAChangedSupplyCostsOneSmallPage: 12,000 offerings draw on it, and none of them is sent again.
func TestAChangedSupplyCostsOneSmallPage(t *testing.T) {
	t.Parallel()
	s := large()
	s.leave("cores", 90)
	var mu sync.Mutex
	snapshots, bytes := 0, 0
	l := &liar{Server: serve.New(s, serve.Options{Epoch: epoch(), Poll: 10 * time.Millisecond}), catalog: func(p *providerv1.CatalogPage) {
		mu.Lock()
		defer mu.Unlock()
		if p.GetReset_() {
			snapshots++
		} else if p.GetRevision() != "" && len(p.GetSupplies())+len(p.GetChanges()) > 0 {
			bytes += proto.Size(p)
		}
	}}
	p := connect(t, listen(t, t, l), fakeCluster(t))
	await := func(want ...catalog.Draw) {
		t.Helper()
		eventually(t, func() bool {
			types, err := p.Types(t.Context(), shopClass)
			if err != nil || len(types) != 1000 {
				t.Fatalf("%d types, %v", len(types), err)
			}
			for _, typ := range types {
				for i := range typ.Offerings {
					if !cmp.Equal(typ.Offerings[i].Draws, want) {
						return false
					}
				}
			}
			return true
		})
	}
	await(catalog.Draw{Supply: "shop/cores", Units: 2, Left: 90})
	s.leave("cores", 7)
	await(catalog.Draw{Supply: "shop/cores", Units: 2, Left: 7})
	mu.Lock()
	if snapshots != 1 || bytes == 0 || bytes > 100 {
		t.Errorf("%d snapshots, %d bytes of changes; want one and at most 100", snapshots, bytes)
	}
	mu.Unlock()
	s.leave("hosts", 5) // another one, and the first is gone
	await(catalog.Draw{Supply: "shop/hosts", Units: 2, Left: 5})
}

// TestProvidersInOneProcessShareNoSupply: both call theirs the same.
func TestProvidersInOneProcessShareNoSupply(t *testing.T) {
	t.Parallel()
	var all catalog.Supplies
	for name, left := range map[string]int{"shop": 3, "other": 8} {
		s := large()
		s.leave("cores", left)
		p := connect(t, listen(t, t, serve.New(&named{s, name}, serve.Options{Epoch: epoch()})), fakeCluster(t))
		types, err := p.Types(t.Context(), shopClass)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(&types[0].Offerings[0])
	}
	if diff := cmp.Diff(catalog.Supplies{"shop/cores": 3, "other/cores": 8}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPageWhoseSuppliesCannotBeIsRefused: nothing of it is used, and the whole is asked for.
func TestAPageWhoseSuppliesCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lie  func(*providerv1.CatalogPage)
		said string
	}{
		"below zero":         {func(p *providerv1.CatalogPage) { p.Supplies[0] = &providerv1.Supply{Name: "cores", Left: -5} }, "supply cores: left is -5"},
		"gone, and drawn on": {func(p *providerv1.CatalogPage) { p.Supplies[0] = &providerv1.Supply{Name: "cores", Gone: true} }, "draws on supply cores, which no page has"},
		"twice":              {func(p *providerv1.CatalogPage) { p.Supplies = append(p.Supplies, p.Supplies[0]) }, "supply cores is there twice"},
		"of what was never sent": {func(p *providerv1.CatalogPage) {
			p.Changes = []*providerv1.OfferingChange{{Type: "type-0000", Offering: &providerv1.Offering{Zone: "zone-0", CapacityType: "spot", Draws: []*providerv1.Draw{{Supply: "hosts", Units: 1}}}}}
		}, "draws on supply hosts, which no page has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := large()
			s.leave("cores", 90)
			l := &liar{Server: serve.New(s, serve.Options{Epoch: epoch(), Poll: 10 * time.Millisecond}), catalog: func(p *providerv1.CatalogPage) {
				if !p.GetReset_() && len(p.GetSupplies()) > 0 {
					tc.lie(p)
				}
			}}
			said := &breaches{}
			p := connect(t, listen(t, t, l), fakeCluster(t), func(o *remote.Options) { o.Meter = said })
			if _, err := p.Types(t.Context(), shopClass); err != nil {
				t.Fatal(err)
			}
			s.leave("cores", 7)
			eventually(t, func() bool { return said.has(tc.said) })
			eventually(t, func() bool { // the provider is asked again
				types, err := p.Types(t.Context(), shopClass)
				return err == nil && types[0].Offerings[0].Draws[0].Left == 7
			})
		})
	}
}

// breaches is a meter that keeps which rules were broken.
type breaches struct {
	mu  sync.Mutex
	all []string
}

func (*breaches) Called(string, string) {}
func (*breaches) Connected(bool)        {}
func (*breaches) Epoch()                {}

func (b *breaches) Broken(_ remote.Rule, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, err.Error())
}

func (b *breaches) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.all, func(said string) bool { return strings.Contains(said, text) })
}

// TestOfferingsThatDifferInLabelsOnlyCrossTheWire: a launch names one of two by its ID, and so does the answer
// which of them is short.
func TestOfferingsThatDifferInLabelsOnlyCrossTheWire(t *testing.T) {
	t.Parallel()
	s := &racks{shop: large()}
	own := *s.types[0]
	own.Offerings = nil
	for _, id := range []string{"rack-1", "rack-2", "rack-3"} {
		own.Offerings = append(own.Offerings, catalog.Offering{
			Zone: "zone-0", CapacityType: label.OnDemand, ID: id, Labels: map[string]string{"example.com/rack": id[:5] + "a"}, Priced: true, Available: true,
		})
	}
	own.Offerings[0].Labels = map[string]string{"example.com/rack": "b"}
	s.types = []*catalog.Type{&own}
	p := connect(t, listen(t, t, serve.New(s, serve.Options{Epoch: epoch()})), fakeCluster(t))
	types, err := p.Types(t.Context(), shopClass)
	if err != nil {
		t.Fatal(err)
	}
	choices := catalog.Choices(types, nil, nil)
	if len(choices) != 3 || choices[1].Offering.ID != "rack-2" {
		t.Fatalf("%d choices, want three", len(choices))
	}
	result := p.Launch(t.Context(), []cloud.LaunchRequest{{Token: "t", Claim: "c", Class: shopClass, Choices: choices[1:2]}})[0]
	if diff := cmp.Diff([]string{"rack-2"}, s.asked); diff != "" || result.Err != nil {
		t.Errorf("error %v, offerings asked for (-want +got):\n%s", result.Err, diff)
	}
	if diff := cmp.Diff([]catalog.Place{{Type: own.Name, Zone: "zone-0", CapacityType: label.OnDemand, ID: "rack-1"}}, result.Short); diff != "" {
		t.Errorf("short (-want +got):\n%s", diff)
	}
}

// racks is a shop that says which offerings it was asked for, and that the first is short.
type racks struct {
	*shop
	asked []string
}

func (r *racks) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	for _, c := range requests[0].Choices {
		r.asked = append(r.asked, c.Offering.ID)
	}
	out := r.shop.Launch(ctx, requests)
	out[0].Short = []catalog.Place{r.types[0].Offerings[0].Place(r.types[0].Name)}
	return out
}

// BenchmarkFollowSupply is BenchmarkFollow for a change of what is left of a supply that all offerings draw on.
func BenchmarkFollowSupply(b *testing.B) {
	onEachWire(b, func(b *testing.B, w benchWire) {
		s := &teller{shop: large()}
		s.leave("cores", 1)
		p := w.provider(b, s)
		changed := make(chan struct{}, 1)
		p.(cloud.TypesChanger).OnTypesChanged(func(cloud.ClassRef) { changed <- struct{}{} })
		if _, err := p.Types(b.Context(), shopClass); err != nil {
			b.Fatal(err)
		}
		<-changed
		var took []time.Duration
		left, before := 1, w.sent.Load()
		for b.Loop() {
			left++
			b.StopTimer()
			s.leave("cores", left)
			b.StartTimer()
			began := time.Now()
			s.changed(shopClass)
			<-changed
			types, err := p.Types(b.Context(), shopClass)
			if err != nil || types[500].Offerings[3].Draws[0].Left != left {
				b.Fatalf("%+v, error %v; want %d left", types[500].Offerings[3], err, left)
			}
			took = append(took, time.Since(began))
		}
		b.ReportMetric(float64(w.sent.Load()-before)/float64(len(took)), "wire-B/op")
		reportTimes(b, took)
	})
}
