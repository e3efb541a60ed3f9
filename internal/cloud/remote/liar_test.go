package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/wiretest"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// liar is a server of kwok that breaks one rule of the protocol.
type liar struct {
	*serve.Server
	launch  func(request *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error)
	catalog func(page *providerv1.CatalogPage)
	list    func(page *providerv1.InstancePage) (send bool)
	get     func(response *providerv1.GetResponse)
	// describe, lost and notice change the description, whether Get finds an instance, and what notices say.
	describe func(d *providerv1.DescribeResponse)
	lost     func(instanceID string) bool
	notice   func(n *providerv1.Notice)
}

func (l *liar) Register(g grpc.ServiceRegistrar) { providerv1.RegisterProviderServer(g, l) }

func (l *liar) Launch(ctx context.Context, request *providerv1.LaunchRequest) (*providerv1.LaunchResponse, error) {
	if l.launch == nil {
		return l.Server.Launch(ctx, request)
	}
	return l.launch(request, func() *providerv1.LaunchResponse {
		response, err := l.Server.Launch(context.WithoutCancel(ctx), request)
		if err != nil {
			panic(err)
		}
		return response
	})
}

func (l *liar) Get(ctx context.Context, request *providerv1.GetRequest) (*providerv1.GetResponse, error) {
	if l.lost != nil && l.lost(request.GetId()) {
		return nil, status.Error(codes.NotFound, "not yet")
	}
	response, err := l.Server.Get(ctx, request)
	if err == nil && l.get != nil {
		l.get(response)
	}
	return response, err
}

func (l *liar) Describe(ctx context.Context, request *providerv1.DescribeRequest) (*providerv1.DescribeResponse, error) {
	d, err := l.Server.Describe(ctx, request)
	if err == nil && l.describe != nil {
		l.describe(d)
	}
	return d, err
}

func (l *liar) Notices(stream grpc.BidiStreamingServer[providerv1.NoticeAck, providerv1.Notice]) error {
	if l.notice != nil {
		stream = &notices{stream, l.notice}
	}
	return l.Server.Notices(stream)
}

// notices changes what is sent on a stream of notices.
type notices struct {
	grpc.BidiStreamingServer[providerv1.NoticeAck, providerv1.Notice]
	change func(*providerv1.Notice)
}

func (n *notices) Send(m *providerv1.Notice) error {
	n.change(m)
	return n.BidiStreamingServer.Send(m)
}

func (l *liar) Catalog(request *providerv1.CatalogRequest, stream grpc.ServerStreamingServer[providerv1.CatalogPage]) error {
	if l.catalog != nil {
		stream = &pages[providerv1.CatalogPage]{stream, func(p *providerv1.CatalogPage) bool { l.catalog(p); return true }}
	}
	return l.Server.Catalog(request, stream)
}

func (l *liar) List(request *providerv1.ListRequest, stream grpc.ServerStreamingServer[providerv1.InstancePage]) error {
	if l.list != nil {
		stream = &pages[providerv1.InstancePage]{stream, l.list}
	}
	return l.Server.List(request, stream)
}

// pages changes what is sent on a stream.
type pages[M any] struct {
	grpc.ServerStreamingServer[M]
	change func(*M) (send bool)
}

func (p *pages[M]) Send(m *M) error {
	if !p.change(m) {
		return nil
	}
	return p.ServerStreamingServer.Send(m)
}

// copied returns a page with its first type copied, so that the server's own stays as it is.
func firstType(page *providerv1.CatalogPage, change func(*providerv1.Type)) {
	if len(page.GetTypes()) == 0 {
		return
	}
	first := page.Types[0]
	own := &providerv1.Type{
		Name: first.Name, Requirements: first.Requirements, Overhead: first.Overhead, Offerings: slices.Clone(first.Offerings),
		Capacity: map[string]int64{},
	}
	for k, v := range first.Capacity {
		own.Capacity[k] = v
	}
	change(own)
	page.Types = append([]*providerv1.Type{own}, page.Types[1:]...)
}

// liars are the rules, each with a server that breaks it and the words by which provider-test says so;
// no words: the protocol allows it.
func liars() map[string]struct {
	liar liar
	said string
} {
	var launches atomic.Int64
	var noLaunch, noFailure sync.Once // a lie that is repeated has provider-test wait until it gives up
	// Who has just begun does not know the launch, so it cannot find the lie: on a slow computer it is the first who asks.
	var anotherLaunch atomic.Int64
	nan, negative := math.NaN(), -1.0
	return map[string]struct {
		liar liar
		said string
	}{
		"honest": {},
		"results in another order": {liar{launch: func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			slices.Reverse(response.Results)
			return response, nil
		}}, ""},
		"tokens forgotten": {liar{launch: func(request *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			asked := map[string]string{}
			for _, item := range request.Items {
				own := item.Token + "-" + time.Duration(launches.Add(1)).String()
				asked[own] = item.Token
				item.Token, item.Claim = own, own
			}
			response := launch()
			for _, r := range response.Results {
				r.Token = asked[r.Token]
				if i := r.GetInstance(); i != nil {
					i.Token, i.Claim = r.Token, "conformance"
				}
			}
			return response, nil
		}}, "FAIL a repeated token gets the first instance"},
		"instances exchanged": {liar{launch: func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			if r := response.Results; len(r) > 1 {
				r[0].Answer, r[1].Answer = r[1].Answer, r[0].Answer
			}
			return response, nil
		}}, "rule instance: Launch: instance"},
		"one instance for all": {liar{launch: func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			for _, r := range response.Results {
				r.Answer = response.Results[0].Answer
			}
			return response, nil
		}}, "rule launch: Launch: the answer has two results"},
		"a result left out": {liar{launch: func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			response.Results = response.Results[1:]
			return response, nil
		}}, "FAIL one launch is answered for each token"},
		"list cut short":    {liar{list: func(page *providerv1.InstancePage) bool { return !page.GetLast() }}, "rule list_cut_short"},
		"page without last": {liar{list: func(page *providerv1.InstancePage) bool { page.Last = false; return true }}, "rule list_cut_short"},
		"instance twice": {liar{list: func(page *providerv1.InstancePage) bool {
			page.Instances = append(page.Instances, page.Instances...)
			return true
		}}, "rule list_twice"},
		"foreign instances": {liar{list: func(page *providerv1.InstancePage) bool {
			page.Instances = append(page.Instances, &providerv1.Instance{Id: "metal://other"})
			return true
		}}, "rule foreign_instance"},
		"another's instances": {liar{list: func(page *providerv1.InstancePage) bool {
			page.Instances = append(page.Instances, &providerv1.Instance{Id: "metal://other", Token: "t", ClusterUid: "u"})
			return true
		}}, "rule foreign_instance"},
		"accepted, and not found": {liar{lost: func(id string) bool { return strings.HasPrefix(id, "kwok://accepted-") }}, "Get(kwok://accepted-"},
		"an ID of no launch": {liar{get: func(r *providerv1.GetResponse) {
			if r.Instance.Id != "" && r.Instance.ProvisionalId != "" {
				noLaunch.Do(func() { r.Instance.ProvisionalId = "" })
			}
		}}, "rule instance: Get kwok://accepted-"},
		"the ID of another launch": {liar{get: func(r *providerv1.GetResponse) {
			if r.Instance.Id != "" && r.Instance.ProvisionalId != "" && anotherLaunch.Add(1) <= 3 {
				r.Instance.Token = "another"
			}
		}}, "rule accepted: Get kwok://accepted-"},
		"accepted without the capability": {liar{describe: func(d *providerv1.DescribeResponse) {
			d.Patience = nil
			d.Capabilities = slices.DeleteFunc(d.Capabilities, func(c providerv1.Capability) bool {
				return c == providerv1.Capability_CAPABILITY_ACCEPTED_LAUNCHES
			})
		}, catalog: func(p *providerv1.CatalogPage) { p.Patience = nil }}, "its launch is decided later, and Describe does not list CAPABILITY_ACCEPTED_LAUNCHES"},
		"a failure that decides nothing": {liar{get: func(r *providerv1.GetResponse) {
			if r.Instance.Failed != nil {
				noFailure.Do(func() {
					r.Instance.Failed = &providerv1.Failure{Kind: providerv1.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME}
				})
			}
		}}, "failed is no definite refusal"},
		"a notice of a failure that decides nothing": {liar{notice: func(n *providerv1.Notice) {
			if n.Failure != nil {
				n.Failure = &providerv1.Failure{Kind: 99}
			}
		}}, "rule notice: message of Notices: kind 12 with the failure"},
		"failures without a notice": {liar{notice: func(n *providerv1.Notice) {
			if n.Failure != nil {
				n.Kind, n.Failure = providerv1.NoticeKind_NOTICE_KIND_LAUNCH_CHANGED, nil
			}
		}}, "FAIL a notice says that an accepted launch has failed: no notice says"},
		"an instance under two IDs": {liar{list: func(page *providerv1.InstancePage) bool {
			for _, i := range slices.Clone(page.Instances) {
				if i.Id == "" {
					page.Instances = append(page.Instances, &providerv1.Instance{Id: "kwok://final", ProvisionalId: i.ProvisionalId, Token: i.Token, Claim: i.Claim, ClusterUid: i.ClusterUid})
				}
			}
			return true
		}}, "List: instance kwok://final is there as kwok://accepted-"},
		"more patience than Describe has": {liar{catalog: func(p *providerv1.CatalogPage) {
			p.Patience = &providerv1.Patience{LaunchMs: time.Hour.Milliseconds(), RegistrationMs: time.Hour.Milliseconds()}
		}}, "patience.launch_ms is 3600000; Describe says that no class needs more than 1800000"},
		"another instance":   {liar{get: func(r *providerv1.GetResponse) { r.Instance.Id = "kwok://another" }}, "rule instance: Get"},
		"snapshot not ended": {liar{catalog: func(p *providerv1.CatalogPage) { p.Last = false }}, "last of the final one false"},
		"snapshot not begun": {liar{catalog: func(p *providerv1.CatalogPage) { p.Reset_ = false }}, "rule catalog"},
		"duplicate type": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) { t.Name = p.Types[1].Name; t.Requirements = nil })
		}}, "is there twice"},
		"duplicate offering": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) { t.Offerings = append(t.Offerings, t.Offerings[0]) })
		}}, "rule catalog"},
		"negative cpu": {liar{catalog: func(p *providerv1.CatalogPage) { firstType(p, func(t *providerv1.Type) { t.Capacity["cpu"] = -1 }) }}, "capacity of cpu is -1"},
		"NaN price": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) {
				t.Offerings[0] = &providerv1.Offering{Zone: t.Offerings[0].Zone, CapacityType: t.Offerings[0].CapacityType, PriceHourly: &nan}
			})
		}}, "price_hourly is NaN"},
		"negative price": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) {
				t.Offerings[0] = &providerv1.Offering{Zone: t.Offerings[0].Zone, CapacityType: t.Offerings[0].CapacityType, PriceHourly: &negative}
			})
		}}, "price_hourly is -1"},
		"a supply that no page has": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) {
				t.Offerings[0] = &providerv1.Offering{Zone: t.Offerings[0].Zone, CapacityType: t.Offerings[0].CapacityType, Draws: []*providerv1.Draw{{Supply: "cores", Units: 1}}}
			})
		}}, "offering 0 draws on supply cores, which no page has"},
		"a node that takes less than nothing": {liar{catalog: func(p *providerv1.CatalogPage) {
			p.Supplies = []*providerv1.Supply{{Name: "cores", Left: 5}}
			firstType(p, func(t *providerv1.Type) {
				t.Offerings[0] = &providerv1.Offering{Zone: t.Offerings[0].Zone, CapacityType: t.Offerings[0].CapacityType, Draws: []*providerv1.Draw{{Supply: "cores", Units: -1}}}
			})
		}}, "units of supply cores is -1"},
		"less left than nothing": {liar{catalog: func(p *providerv1.CatalogPage) { p.Supplies = []*providerv1.Supply{{Name: "cores", Left: -1}} }}, "supply cores: left is -1"},
		"a supply twice": {liar{catalog: func(p *providerv1.CatalogPage) {
			p.Supplies = []*providerv1.Supply{{Name: "cores"}, {Name: "cores"}}
		}}, "supply cores is there twice"},
		"a zone that cannot be": {liar{catalog: func(p *providerv1.CatalogPage) {
			firstType(p, func(t *providerv1.Type) { t.Offerings[0] = &providerv1.Offering{Zone: "a b", CapacityType: "spot"} })
		}}, "rule catalog"},
		"too large a page": {liar{catalog: func(p *providerv1.CatalogPage) { p.Gone = append(p.Gone, strings.Repeat("x", 5<<20)) }}, "ResourceExhausted"},
		"unknown enum": {liar{launch: func(request *providerv1.LaunchRequest, _ func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := &providerv1.LaunchResponse{}
			for _, item := range request.Items {
				response.Results = append(response.Results, &providerv1.LaunchResult{Token: item.Token, Answer: &providerv1.LaunchResult_Failure{Failure: &providerv1.Failure{Kind: 99}}})
			}
			return response, nil
		}}, "outcome unknown, by a failure of unknown kind 99"},
		"answer after the deadline": {liar{launch: func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			time.Sleep(2 * shortDeadline)
			return response, nil
		}}, "did not answer in time"},
	}
}

// shortDeadline and catalogDeadline are for what is not answered in time. What comes of a catalog that is not
// ended comes before its deadline on a computer with other work, too.
const shortDeadline, catalogDeadline = 500 * time.Millisecond, 2 * time.Second

// TestEachLieIsCaught runs provider-test against each liar.
func TestEachLieIsCaught(t *testing.T) {
	t.Parallel()
	for name, c := range liars() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fakeCluster(t)
			c.liar.Server = serve.New(newLate(t, api, &lateCloud{}), serve.Options{Epoch: epoch(), ClusterUID: here.UID})
			opts := remote.Options{Address: listen(t, t, &c.liar), Cluster: here, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler), Deadlines: remote.DefaultDeadlines()}
			if name == "snapshot not ended" {
				opts.Deadlines.Catalog = catalogDeadline
			}
			if strings.Contains(name, "deadline") {
				opts.Deadlines.Launch = shortDeadline
			}
			results, err := wiretest.Run(t.Context(), wiretest.Options{Remote: opts, Classes: api, Class: "default", Unready: "unready", Slow: "slow", Accepts: "accepts", Fails: "fails", Run: "1", Node: nodeOf(api)})
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, r := range results {
				if r.Verdict == cloudtest.Failed {
					failed = append(failed, "FAIL "+r.Name+": "+strings.Join(r.Why, "; "))
				}
			}
			all := strings.Join(failed, "\n")
			if c.said == "" && all != "" || !strings.Contains(all, c.said) {
				t.Errorf("provider-test says:\n%s\nwant %q in it", all, c.said)
			}
		})
	}
}

// nodeOf returns what gets the Node of an instance in a cluster without kubelets.
func nodeOf(c client.Client) func(cloudtest.T, string) *corev1.Node {
	return func(t cloudtest.T, id string) *corev1.Node {
		node := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: strings.TrimPrefix(id, "kwok://")}, node); err != nil {
			t.Fatalf("node of %s: %v", id, err)
		}
		return node
	}
}

// aRequest asks for a small Linux instance.
func aRequest(t *testing.T, p cloud.Provider, token string) cloud.LaunchRequest {
	t.Helper()
	return aRequestOf(t, p, cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}, token)
}

func aRequestOf(t *testing.T, p cloud.Provider, class cloud.ClassRef, token string) cloud.LaunchRequest {
	t.Helper()
	types, err := p.Types(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	want := label.Requirements{corev1.LabelOSStable: label.In("linux")}
	return cloud.LaunchRequest{Token: token, Claim: "claim-" + token, Class: class, Requirements: want, Choices: catalog.Choices(types, want, quantity.List{quantity.CPU: 100})}
}

func listed(t *testing.T, p cloud.Provider) []cloud.Instance {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestALostAnswerLaunchesOnce has the server launch and its answer lost, in the ways in which that happens.
// The launch is no refusal, and repeated it is answered with the instance that was made.
func TestALostAnswerLaunchesOnce(t *testing.T) {
	t.Parallel()
	lost := map[string]func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error){
		"the connection breaks": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			launch()
			return nil, status.Error(codes.Unavailable, "connection reset")
		},
		"the server hangs": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			launch()
			time.Sleep(2 * shortDeadline)
			return nil, status.Error(codes.Canceled, "nobody waits")
		},
		"it is busy with the token": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			launch()
			return nil, status.Error(codes.Aborted, "an operation is pending")
		},
		"the result is missing": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			launch()
			return &providerv1.LaunchResponse{}, nil
		},
		"the result is empty": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			return &providerv1.LaunchResponse{Results: []*providerv1.LaunchResult{{Token: launch().Results[0].Token}}}, nil
		},
		"the instance cannot be": func(launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
			response := launch()
			response.Results[0].GetInstance().Capacity["memory"] = -1
			return response, nil
		},
	}
	for name, lose := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fakeCluster(t)
			var calls atomic.Int64
			l := &liar{Server: serve.New(newKWOK(t, api), serve.Options{Epoch: epoch()})}
			l.launch = func(_ *providerv1.LaunchRequest, launch func() *providerv1.LaunchResponse) (*providerv1.LaunchResponse, error) {
				if calls.Add(1) == 1 {
					return lose(launch)
				}
				return launch(), nil
			}
			p := connect(t, listen(t, t, l), api, func(o *remote.Options) {
				o.Deadlines = remote.DefaultDeadlines()
				if strings.Contains(name, "hangs") {
					o.Deadlines.Launch = shortDeadline
				}
			})
			r := aRequest(t, p, "t1")
			first := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			var refused *cloud.Failure
			if first.Err == nil || errors.As(first.Err, &refused) {
				t.Fatalf("the first launch: %v, want an error that is no refusal", first.Err)
			}
			again := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			for again.Err != nil && t.Context().Err() == nil && strings.Contains(again.Err.Error(), "in time") {
				again = p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			}
			if all := listed(t, p); again.Err != nil || len(all) != 1 || all[0].ID != again.Instance.ID {
				t.Errorf("repeated: %v %v; listed %v, want the one instance", again.Instance.ID, again.Err, all)
			}
		})
	}
}

// TestARestartAndAnOutageLoseNothing has the server end, be away and come back as another run.
func TestARestartAndAnOutageLoseNothing(t *testing.T) {
	t.Parallel()
	api := fakeCluster(t)
	address := "unix://" + filepath.Join(t.TempDir(), "p.sock")
	serveRun := func() func() {
		stop := listenOn(t, address, serve.New(newKWOK(t, api), serve.Options{Epoch: epoch()}))
		return stop
	}
	stop := serveRun()
	var clock atomic.Int64
	p := connect(t, address, api, func(o *remote.Options) {
		o.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(clock.Load())) }
	})
	r := aRequest(t, p, "t1")
	first := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	stop()
	id := first.Instance.ID
	_, got := p.Get(t.Context(), id)
	_, list := p.List(t.Context())
	for what, err := range map[string]error{"Get": got, "List": list, "Terminate": p.Terminate(t.Context(), id), "Launch": p.Launch(t.Context(), []cloud.LaunchRequest{r})[0].Err} {
		var refused *cloud.Failure
		if err == nil || errors.Is(err, cloud.ErrNotFound) || errors.As(err, &refused) {
			t.Errorf("%s while the server is away: %v, want an error that says nothing of the instance", what, err)
		}
	}
	if p.(interface{ Ready() error }).Ready() == nil {
		t.Error("the provider is ready while its server is away")
	}
	if types, err := p.Types(t.Context(), r.Class); err != nil || len(types) == 0 {
		t.Errorf("Types a moment after: %d, %v; want the last ones", len(types), err)
	}
	clock.Store(int64(11 * time.Minute))
	if types, err := p.Types(t.Context(), r.Class); err == nil {
		t.Errorf("Types after eleven minutes: %d, want an error", len(types))
	}
	defer serveRun()()
	var again cloud.LaunchResult
	eventually(t, func() bool { again = p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; return again.Err == nil })
	if all := listed(t, p); again.Instance.ID != id || len(all) != 1 {
		t.Errorf("after the restart the token gets %s, before it got %s; listed %d, want one", again.Instance.ID, id, len(all))
	}
	eventually(t, func() bool { types, err := p.Types(t.Context(), r.Class); return err == nil && len(types) > 0 })
	if err := p.(interface{ Ready() error }).Ready(); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatal("not so after a minute")
		case <-tick.C:
		}
	}
}
