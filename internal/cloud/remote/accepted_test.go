package remote_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
)

// decidedAfter is how long the cloud of late takes to decide about a launch.
const decidedAfter = 200 * time.Millisecond

// late is kwok, with two classes more: launches of accepts get their IDs later, those of fails come to nothing.
type late struct {
	*kwok.Provider
	cloud *lateCloud
}

// lateCloud has the launches that were accepted, which outlive each provider.
type lateCloud struct {
	mu       sync.Mutex
	launches []*acceptedLaunch
}

type acceptedLaunch struct {
	request  cloud.LaunchRequest
	at       time.Time
	instance cloud.Instance
	// final is the ID that came; notified: the notice of what became of the launch is taken.
	final    string
	notified bool
}

func newLate(t cloudtest.T, c client.Client, at *lateCloud) late { return late{newKWOK(t, c), at} }

func isLate(class cloud.ClassRef) bool { return class.Name == "accepts" || class.Name == "fails" }

// launches returns all launches that were accepted, those that are due decided.
func (l late) launches(ctx context.Context) []*acceptedLaunch {
	for _, o := range l.cloud.launches {
		if o.final != "" || o.instance.Failed != nil || time.Since(o.at) < decidedAfter {
			continue
		}
		if o.request.Class.Name == "fails" {
			o.instance.Failed = &cloud.Failure{Kind: cloud.NoCapacity, Message: "sold out after all"}
			continue
		}
		r := o.request
		r.Class.Name = "default"
		o.final = l.Provider.Launch(ctx, []cloud.LaunchRequest{r})[0].Instance.ID
	}
	return l.cloud.launches
}

// answer is what is said of a launch.
func (l late) answer(ctx context.Context, o *acceptedLaunch) (cloud.Instance, error) {
	if o.final != "" {
		return l.Provider.Get(ctx, o.final)
	}
	return o.instance, nil
}

func (l late) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	for i, r := range requests {
		if !isLate(r.Class) {
			results[i] = l.Provider.Launch(ctx, requests[i:i+1])[0]
			continue
		}
		l.cloud.mu.Lock()
		at := slices.IndexFunc(l.launches(ctx), func(o *acceptedLaunch) bool { return o.request.Token == r.Token })
		if at < 0 {
			at = len(l.cloud.launches)
			first := r.Choices[0]
			l.cloud.launches = append(l.cloud.launches, &acceptedLaunch{request: r, at: time.Now(), instance: cloud.Instance{
				ID: "kwok://accepted-" + r.Token, Provisional: true, Token: r.Token, Claim: r.Claim,
				Labels: map[string]string{label.InstanceType: first.Type.Name, label.CapacityType: first.Offering.CapacityType, label.Zone: first.Offering.Zone},
			}})
		}
		results[i].Instance, results[i].Err = l.answer(ctx, l.cloud.launches[at])
		l.cloud.mu.Unlock()
	}
	return results
}

func (l late) find(ctx context.Context, id string) (int, bool) {
	at := slices.IndexFunc(l.launches(ctx), func(o *acceptedLaunch) bool { return o.instance.ID == id })
	return at, at >= 0
}

func (l late) Get(ctx context.Context, id string) (cloud.Instance, error) {
	l.cloud.mu.Lock()
	defer l.cloud.mu.Unlock()
	if at, found := l.find(ctx, id); found {
		return l.answer(ctx, l.cloud.launches[at])
	}
	return l.Provider.Get(ctx, id)
}

func (l late) Terminate(ctx context.Context, id string) error {
	l.cloud.mu.Lock()
	defer l.cloud.mu.Unlock()
	at, found := l.find(ctx, id)
	if !found {
		return l.Provider.Terminate(ctx, id)
	}
	if final := l.cloud.launches[at].final; final != "" {
		return l.Provider.Terminate(ctx, final)
	}
	l.cloud.launches = slices.Delete(l.cloud.launches, at, at+1)
	return nil
}

func (l late) List(ctx context.Context) ([]cloud.Instance, error) {
	l.cloud.mu.Lock()
	defer l.cloud.mu.Unlock()
	launches := l.launches(ctx)
	all, err := l.Provider.List(ctx)
	for _, o := range launches {
		if o.final == "" {
			all = append(all, o.instance)
		}
	}
	return all, err
}

func (l late) Watch(ctx context.Context, report func(context.Context, cloud.Notice) error) {
	tick := time.NewTicker(decidedAfter / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.cloud.mu.Lock()
		launches := slices.Clone(l.launches(ctx))
		l.cloud.mu.Unlock()
		for _, o := range launches {
			l.cloud.mu.Lock()
			n := cloud.Notice{Kind: cloud.LaunchChanged, InstanceID: o.instance.ID, Failure: o.instance.Failed}
			if n.Failure != nil {
				n.Kind = cloud.LaunchFailed
			}
			isDue := !o.notified && (o.final != "" || n.Failure != nil)
			l.cloud.mu.Unlock()
			if isDue && report(ctx, n) == nil {
				l.cloud.mu.Lock()
				o.notified = true
				l.cloud.mu.Unlock()
			}
		}
	}
}

// longest is the patience of late for all classes, and of its class accepts.
var (
	longest = lifecycle.Patience{Launch: 30 * time.Minute, Registration: time.Hour, Follow: 20 * time.Second}
	shorter = lifecycle.Patience{Launch: 10 * time.Minute, Registration: time.Hour, Follow: 5 * time.Second}
)

func (late) Patience(class cloud.ClassRef) lifecycle.Patience {
	switch class.Name {
	case "":
		return longest
	case "accepts":
		return lifecycle.Patience{Launch: shorter.Launch, Follow: shorter.Follow}
	default:
		return lifecycle.Patience{}
	}
}

// TestAcceptedLaunchesCrossTheWire runs the suite on a provider whose launches are decided later, behind the protocol. Nothing but
// what kwok does not have is left out.
func TestAcceptedLaunchesCrossTheWire(t *testing.T) {
	t.Parallel()
	lacks := []string{"a change of types is reported", "drift of many instances is that of each", "conditions that are notices can be understood"}
	for _, test := range cloudtest.Tests() {
		result := cloudtest.Check(t.Context(), test.Name, func(ct cloudtest.T) {
			api, shared := fakeCluster(t), &lateCloud{}
			h := harness(ct, api, func(ct cloudtest.T, c client.Client) cloud.Provider {
				return connect(ct, listen(ct, t, serve.New(newLate(ct, c, shared), serve.Options{Epoch: epoch(), ClusterUID: here.UID, IDPrefix: "kwok://"})), c)
			})
			h.Accepts, h.Fails, h.Notified = h.Class, h.Class, true
			h.Accepts.Name, h.Fails.Name = "accepts", "fails"
			test.Run(ct, h)
		})
		if result.Verdict == cloudtest.Failed || (result.Verdict == cloudtest.Skipped) != slices.Contains(lacks, test.Name) {
			t.Errorf("%s: %s %q", test.Name, result.Verdict, result.Why)
		}
	}
}

// TestPatienceIsThatOfTheClass: until the instance types of a class are known its launches may take as long as any.
func TestPatienceIsThatOfTheClass(t *testing.T) {
	t.Parallel()
	api := fakeCluster(t)
	p := connect(t, listen(t, t, serve.New(newLate(t, api, &lateCloud{}), serve.Options{Epoch: epoch()})), api)
	patience := p.(cloud.Patient).Patience
	accepts, other := shopClass, shopClass
	accepts.Name = "accepts"
	if got := patience(accepts); got != longest {
		t.Errorf("before the types are known: %v, want %v", got, longest)
	}
	for class, want := range map[cloud.ClassRef]lifecycle.Patience{accepts: shorter, other: longest} {
		if _, err := p.Types(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if got := patience(class); got != want {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
}

// TestAServerWithoutAcceptedLaunchesIsAsItWas: an older server says nothing of patience, and launches have the usual one.
func TestAServerWithoutAcceptedLaunchesIsAsItWas(t *testing.T) {
	t.Parallel()
	p := connect(t, listen(t, t, serve.New(&shop{}, serve.Options{Epoch: epoch()})), fakeCluster(t))
	if _, err := p.Types(t.Context(), shopClass); err != nil {
		t.Fatal(err)
	}
	if got := p.(cloud.Patient).Patience(shopClass); got != (lifecycle.Patience{}) {
		t.Errorf("patience: %v, want the usual one", got)
	}
}

// TestAnOlderControllerLaunchesAgain: one that does not know provisional IDs finds no ID in the answer. It takes the outcome for
// unknown, and sends the token again until there is one.
func TestAnOlderControllerLaunchesAgain(t *testing.T) {
	t.Parallel()
	api := fakeCluster(t)
	link, err := remote.Open(remote.Options{Address: listen(t, t, serve.New(newLate(t, api, &lateCloud{}), serve.Options{Epoch: epoch()})), Cluster: here, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	request := &providerv1.LaunchRequest{Cluster: &providerv1.Cluster{Uid: here.UID}, Items: []*providerv1.LaunchItem{{
		Token: "t1", Claim: "claim", Class: &providerv1.Class{Group: shopClass.Group, Kind: shopClass.Kind, Name: "accepts"},
	}}}
	types, err := newKWOK(t, api).Types(t.Context(), shopClass)
	if err != nil {
		t.Fatal(err)
	}
	o := types[0].Offerings[0]
	request.Items[0].Offerings = []*providerv1.OfferingRef{{Type: types[0].Name, Zone: o.Zone, CapacityType: o.CapacityType}}
	var ids []string
	eventually(t, func() bool {
		response, err := link.Raw().Launch(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, response.GetResults()[0].GetInstance().GetId())
		return ids[len(ids)-1] != ""
	})
	nodes := &corev1.NodeList{}
	if err := api.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	if ids[0] != "" || len(nodes.Items) != 1 || nodes.Items[0].Spec.ProviderID != ids[len(ids)-1] {
		t.Errorf("IDs %q, and %d nodes; want none at first, and in the end that of the only node", ids, len(nodes.Items))
	}
}

// TestNoticesOfLaunchesCrossTheWire: a failure arrives with all that it says.
func TestNoticesOfLaunchesCrossTheWire(t *testing.T) {
	t.Parallel()
	failure := &cloud.Failure{Kind: cloud.Rejected, Reason: "DiskBroken", Message: "no disk", Keep: time.Minute}
	notices := []cloud.Notice{{Kind: cloud.LaunchFailed, InstanceID: "shop://a", Failure: failure}, {Kind: cloud.LaunchChanged, InstanceID: "shop://b"}}
	c := &crier{shop: &shop{}, pending: slices.Clone(notices)}
	p := connect(t, listen(t, t, serve.New(c, serve.Options{Epoch: epoch()})), fakeCluster(t))
	ctx, cancel := context.WithCancel(t.Context())
	var got []cloud.Notice
	var watching sync.WaitGroup
	watching.Go(func() {
		p.(cloud.Watcher).Watch(ctx, func(_ context.Context, n cloud.Notice) error { got = append(got, n); return nil })
	})
	eventually(t, func() bool { pending, _ := c.counts(); return pending == 0 })
	cancel()
	watching.Wait()
	if diff := cmp.Diff(notices, got); diff != "" {
		t.Errorf("notices (-sent +got):\n%s", diff)
	}
}

// TestPatienceHasBounds: what a provider says of it arrives as it is, or refuses its description.
func TestPatienceHasBounds(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, c := range []struct {
		is   lifecycle.Patience
		said string
	}{
		{lifecycle.Patience{}, ""},
		{lifecycle.Patience{Launch: time.Hour, Registration: time.Hour}, ""},
		{lifecycle.Patience{Launch: day, Registration: day, Follow: 10 * time.Minute}, ""},
		{lifecycle.Patience{Launch: time.Second}, "patience.launch_ms is 1000; it may be 0, for the usual, or 60000 to 86400000"},
		{lifecycle.Patience{Registration: day + time.Hour}, "patience.registration_ms is 90000000"},
		{lifecycle.Patience{Registration: -time.Hour}, "patience.registration_ms is -3600000"},
		{lifecycle.Patience{Follow: time.Millisecond}, "patience.follow_ms is 1;"},
		{lifecycle.Patience{Launch: time.Hour, Registration: time.Minute}, "less than launch_ms"},
	} {
		server := serve.New(newLate(t, fakeCluster(t), &lateCloud{}), serve.Options{Epoch: epoch(), Patience: c.is})
		link, err := remote.Open(remote.Options{Address: listen(t, t, server), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		known, err := link.Describe(t.Context())
		want := c.is
		if want == (lifecycle.Patience{}) { // what the cloud itself says
			want = lifecycle.Patience{Launch: 30 * time.Minute, Registration: time.Hour, Follow: 20 * time.Second}
		}
		if c.said == "" && err == nil && known.Patience != want {
			t.Errorf("%+v arrives as %+v, want %+v", c.is, known.Patience, want)
		}
		if c.said == "" && err != nil || !strings.Contains(fmt.Sprint(err), c.said) {
			t.Errorf("%+v: %v, want %q", c.is, err, c.said)
		}
		_ = link.Close()
	}
}
