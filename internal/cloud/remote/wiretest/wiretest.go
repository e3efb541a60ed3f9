// Package wiretest asks a provider behind the protocol of api/provider/v1, in whatever language it is
// written, whether it does all that is asked of it: the suite of internal/cloud/cloudtest through the
// adapter, and tests of the protocol itself. It is what dovetail provider-test runs.
package wiretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
)

// Options are what is tested, and with what.
type Options struct {
	// Remote is how the provider is reached. Its Meter is taken.
	Remote remote.Options
	// Classes has the node class objects.
	Classes client.Reader
	// Class can be launched with. Unready is not ready yet, and instances of Slow take longer to join
	// than any test; empty: the tests for them are skipped.
	Class, Unready, Slow string
	// Accepts is a class whose launches are accepted and get their IDs within seconds, Fails one whose launches are accepted and
	// then fail for want of capacity; empty: likewise.
	Accepts, Fails string
	// Node waits for the Node of an instance; nil: instances join no cluster that could be asked, and
	// the tests of Nodes are skipped.
	Node func(t cloudtest.T, instanceID string) *corev1.Node
	// Registered: instances join with the labels of their request only.
	Registered bool
	// Run distinguishes the tokens of one run from those of another.
	Run string
	// Report gets each result at once; may be nil.
	Report func(cloudtest.Result)
}

// Missing is the name of a class that there is not.
const Missing = "provider-test-missing"

// Run runs all tests, one after the other. The error says that the provider cannot be asked at all.
func Run(ctx context.Context, opts Options) ([]cloudtest.Result, error) {
	rules := &broken{}
	opts.Remote.Meter = rules
	link, err := remote.Open(opts.Remote)
	if err != nil {
		return nil, err
	}
	defer func() { _ = link.Close() }()
	d, err := link.Describe(ctx)
	if err != nil {
		return nil, err
	}
	s := &suite{opts: opts, link: link, is: d}
	var results []cloudtest.Result
	for _, test := range s.tests() { //nolint:contextcheck // each test has a context of its own
		rules.take()
		result := cloudtest.Check(ctx, test.Name+" "+opts.Run, func(t cloudtest.T) { s.run(t, test) })
		result.Name = test.Name
		if why := rules.take(); len(why) > 0 {
			result.Verdict, result.Why = cloudtest.Failed, append(result.Why, why...)
		}
		results = append(results, result)
		if opts.Report != nil {
			opts.Report(result)
		}
	}
	return results, nil
}

// broken is the meter that keeps which rules were broken.
type broken struct {
	mu  sync.Mutex
	why []string
}

func (b *broken) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := b.why
	b.why = nil
	return why
}

func (*broken) Called(string, string) {}
func (*broken) Connected(bool)        {}
func (*broken) Epoch()                {}

func (b *broken) Broken(rule remote.Rule, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line := fmt.Sprintf("rule %s: %v", rule, err); !slices.Contains(b.why, line) {
		b.why = append(b.why, line)
	}
}

// suite is one run.
type suite struct {
	opts Options
	link *remote.Client
	is   *remote.Description
}

// tests returns the tests of the protocol, then those of every provider.
func (s *suite) tests() []cloudtest.Test {
	own := []cloudtest.Test{
		{Name: "a snapshot of instance types has a revision that can be asked for", Run: func(t cloudtest.T, _ cloudtest.Harness) { s.revision(t) }},
		{Name: "instances of one cluster are not listed for another", Run: s.otherCluster},
		{Name: "one launch is answered for each token", Run: s.tokens},
	}
	return append(own, cloudtest.Tests()...)
}

func (s *suite) run(t cloudtest.T, test cloudtest.Test) {
	if test.Joins && s.opts.Node == nil {
		t.Skip("it needs the Nodes of instances (--kubeconfig)")
	}
	test.Run(t, cloudtest.Harness{
		Provider: s.provider(t, s.link), Restart: s.reconnect, Registered: s.opts.Registered, Node: s.opts.Node,
		Class: s.ref(s.opts.Class), Missing: s.ref(Missing), Unready: s.ref(s.opts.Unready), Slow: s.ref(s.opts.Slow),
		Accepts: s.ref(s.opts.Accepts), Fails: s.ref(s.opts.Fails), Notified: s.is.Capabilities[providerv1.Capability_CAPABILITY_NOTICES],
	})
}

// ref returns the reference to a class of the provider's first kind.
func (s *suite) ref(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: s.is.ClassKinds[0].Group, Kind: s.is.ClassKinds[0].Kind, Name: name}
}

func (s *suite) provider(t cloudtest.T, link *remote.Client) cloud.Provider {
	p := remote.New(link, s.is, s.opts.Classes, nil)
	t.Cleanup(p.(interface{ Close() }).Close)
	return p
}

// reconnect returns a provider that knows nothing, over a connection of its own.
func (s *suite) reconnect(t cloudtest.T) cloud.Provider {
	link, err := remote.Open(s.opts.Remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return s.provider(t, link)
}

// class returns the message for the class, as the adapter sends it.
func (s *suite) class(t cloudtest.T) *providerv1.Class {
	class, err := s.provider(t, s.link).(interface {
		Class(ctx context.Context, ref cloud.ClassRef) (*providerv1.Class, error)
	}).Class(t.Context(), s.ref(s.opts.Class))
	if err != nil {
		t.Fatal(err)
	}
	return class
}

// snapshot reads one snapshot.
func (s *suite) snapshot(t cloudtest.T, have string) (pages []*providerv1.CatalogPage) {
	stream, err := s.link.Raw().Catalog(t.Context(), &providerv1.CatalogRequest{Class: s.class(t), HaveRevision: have})
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return pages
		}
		if err != nil {
			t.Fatalf("Catalog: %v", err)
		}
		pages = append(pages, page)
	}
}

func (s *suite) revision(t cloudtest.T) {
	pages := s.snapshot(t, "")
	if len(pages) == 0 {
		t.Fatal("the snapshot has no page")
	}
	first, last := pages[0], pages[len(pages)-1]
	if !first.GetReset_() || !last.GetLast() || last.GetRevision() == "" {
		t.Errorf("reset of the first of %d pages is %t, last of the final one %t, its revision %q; want true, true and a name", len(pages), first.GetReset_(), last.GetLast(), last.GetRevision())
	}
	again := s.snapshot(t, last.GetRevision())
	if len(again) == 1 && again[0].GetRevision() == last.GetRevision() && (again[0].GetReset_() || !again[0].GetLast() || len(again[0].GetTypes()) > 0) {
		t.Error("to who has the current revision a page is sent that is more than revision and last")
	}
}

// otherCluster launches for this cluster and lists for another one.
func (s *suite) otherCluster(t cloudtest.T, h cloudtest.Harness) {
	instance := cloudtest.Launch(t, h)
	stream, err := s.link.Raw().List(t.Context(), &providerv1.ListRequest{Cluster: &providerv1.Cluster{Name: "other", Uid: "provider-test-other"}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) && status.Code(err) != codes.FailedPrecondition {
				t.Errorf("List for another cluster: %v", err)
			}
			return
		}
		for _, i := range page.GetInstances() {
			if i.GetId() == instance.ID && i.GetClusterUid() == "provider-test-other" {
				t.Errorf("instance %s is listed as one of another cluster: there its token is known to nobody, and it would be ended", instance.ID)
			}
		}
		if page.GetLast() {
			return
		}
	}
}

// tokens launches three and looks at the answer itself.
func (s *suite) tokens(t cloudtest.T, h cloudtest.Harness) {
	types, err := h.Provider.Types(t.Context(), h.Class)
	if err != nil || len(types) == 0 || len(types[0].Offerings) == 0 {
		t.Fatalf("Types: %d, %v", len(types), err)
	}
	request := &providerv1.LaunchRequest{Cluster: &providerv1.Cluster{Name: s.opts.Remote.Cluster.Name, Uid: s.opts.Remote.Cluster.UID}}
	offering := types[0].Offerings[0]
	for _, n := range []string{"a", "b", "c"} {
		request.Items = append(request.Items, &providerv1.LaunchItem{
			Token: "token-" + n + "-" + s.opts.Run, Claim: "provider-test-" + n, Class: s.class(t),
			Offerings: []*providerv1.OfferingRef{{Type: types[0].Name, Zone: offering.Zone, CapacityType: offering.CapacityType, Reservation: offering.Reservation, Group: offering.Group, Labels: offering.Labels}},
		})
	}
	response, err := s.link.Raw().Launch(t.Context(), request)
	if err != nil {
		t.Fatalf("Launch: %v", err)
	}
	var got []string
	for _, r := range response.GetResults() {
		got = append(got, r.GetToken())
		if i := r.GetInstance(); i != nil {
			cloudtest.End(t, h.Provider, i.GetId())
			if i.GetToken() != r.GetToken() {
				t.Errorf("the instance of token %s has token %q", r.GetToken(), i.GetToken())
			}
		}
	}
	slices.Sort(got)
	for i, item := range request.Items {
		if len(got) != len(request.Items) || got[i] != item.GetToken() {
			t.Fatalf("the answer has results for %q, want each of the three tokens once", got)
		}
	}
}
