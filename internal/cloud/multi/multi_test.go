package multi_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/multi"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/testkit/rack"
)

func kwokClass(name string) cloud.ClassRef {
	return cloud.ClassRef{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: name}
}

// newCluster is an API server in memory with classes of both kinds.
func newCluster(t testing.TB) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	slow := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}
	slow.Spec.NodeRegistrationDelay = &metav1.Duration{Duration: time.Hour}
	unready := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "unready"}}
	unready.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NotToday", LastTransitionTime: metav1.Unix(1, 0)}}
	return fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&corev1.Node{}).
		WithObjects(&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, slow, unready, rack.NewClass("default", false), rack.NewClass("unready", true)).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.Now()) // which a real API server would
			return c.Create(ctx, o, opts...)
		}}).Build()
}

func newKWOK(t cloudtest.T, c client.Client) *kwok.Provider {
	p, err := kwok.New(c, kwok.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBoth(t cloudtest.T, c client.Client) *multi.Provider {
	p, err := multi.New(newKWOK(t, c), rack.New(c))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestConformance runs the suite with the classes of each of two providers.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]cloudtest.Harness{
		"kwok": {Class: kwokClass("default"), Missing: kwokClass("missing"), Unready: kwokClass("unready"), Slow: kwokClass("slow")},
		"rack": {Class: rack.Class("default"), Missing: rack.Class("missing"), Unready: rack.Class("unready")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			for _, test := range cloudtest.Tests() {
				if name == "rack" && test.Name == "a rebooted instance is the same one" {
					continue // see TestAProviderThatDoesNotRebootSaysSo
				}
				t.Run(test.Name, func(t *testing.T) {
					t.Parallel()
					h := h
					h.Provider, h.Node = newBoth(t, c), func(t cloudtest.T, id string) *corev1.Node { return nodeOf(t, c, id) }
					h.Restart = func(t cloudtest.T) cloud.Provider { return newBoth(t, c) }
					test.Run(t, h)
				})
			}
		})
	}
}

func nodeOf(t cloudtest.T, c client.Client, id string) *corev1.Node {
	node := &corev1.Node{}
	_, name, _ := strings.Cut(id, "://")
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatalf("node of %s: %v", id, err)
	}
	return node
}

// TestAProviderThatDoesNotRebootSaysSo asks for reboots where one of two providers reboots instances.
func TestAProviderThatDoesNotRebootSaysSo(t *testing.T) {
	t.Parallel()
	p := newBoth(t, newCluster(t))
	id := cloudtest.Launch(t, cloudtest.Harness{Provider: p, Class: rack.Class("default")}).ID
	if err := p.Reboot(t.Context(), cloud.RebootRequest{InstanceID: id}); !errors.Is(err, cloud.ErrRebootRefused) {
		t.Errorf("Reboot(%s): %v, want that it is refused", id, err)
	}
	if err := p.Reboot(t.Context(), cloud.RebootRequest{InstanceID: "rack://none"}); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("an instance that is not there: %v, want that it is not found", err)
	}
}

// TestOneBatchForBoth has a batch of launches whose classes are of both, and of neither.
func TestOneBatchForBoth(t *testing.T) {
	t.Parallel()
	p := newBoth(t, newCluster(t))
	var requests []cloud.LaunchRequest
	for i, class := range []cloud.ClassRef{rack.Class("default"), kwokClass("default"), {Group: "sky", Kind: "Cloud", Name: "nine"}, rack.Class("default")} {
		r := cloud.LaunchRequest{Token: string(rune('a' + i)), Claim: "claim", Class: class}
		if types, err := p.Types(t.Context(), class); err == nil {
			r.Choices = catalog.Choices(types, nil, nil)[:1]
		}
		requests = append(requests, r)
	}
	results := p.Launch(t.Context(), requests)
	var failure *cloud.Failure
	if !errors.As(results[2].Err, &failure) || failure.Kind != cloud.NoCapacity {
		t.Errorf("a class of no provider: %v, want no capacity", results[2].Err)
	}
	for i, prefix := range map[int]string{0: "rack://", 1: "kwok://", 3: "rack://"} {
		if !strings.HasPrefix(results[i].Instance.ID, prefix) || results[i].Instance.Token != requests[i].Token {
			t.Errorf("answer %d is %s with token %s (%v), want one of %s with token %s", i, results[i].Instance.ID, results[i].Instance.Token, results[i].Err, prefix, requests[i].Token)
		}
	}
	all, err := p.List(t.Context())
	if err != nil || len(all) != 3 {
		t.Errorf("%d instances are listed (%v), want 3", len(all), err)
	}
}

// down is a rack that cannot be asked.
type down struct{ *rack.Provider }

var errDown = errors.New("rack is down")

func (down) Terminate(context.Context, string) error { return errDown }
func (down) Get(context.Context, string) (cloud.Instance, error) {
	return cloud.Instance{}, errDown
}
func (down) List(context.Context) ([]cloud.Instance, error) { return nil, errDown }
func (down) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	return make([]cloud.LaunchResult, len(requests)-1) // it forgets one
}

// TestNothingIsGoneBecauseAProviderIsDown asks about instances of both while one is down.
func TestNothingIsGoneBecauseAProviderIsDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p, err := multi.New(newKWOK(t, c), down{rack.New(c)})
	if err != nil {
		t.Fatal(err)
	}
	_, errGet := p.Get(t.Context(), "rack://x")
	_, errList := p.List(t.Context())
	for call, err := range map[string]error{
		"Terminate": p.Terminate(t.Context(), "rack://x"), "Get": errGet, "List": errList,
		"Reboot": p.Reboot(t.Context(), cloud.RebootRequest{InstanceID: "rack://x"}),
	} {
		if !errors.Is(err, errDown) || errors.Is(err, cloud.ErrNotFound) {
			t.Errorf("%s: %v, want that it is down", call, err)
		}
	}
	if _, err := p.Get(t.Context(), "kwok://x"); !errors.Is(err, cloud.ErrNotFound) || errors.Is(err, errDown) {
		t.Errorf("an instance of the other provider: %v, want that it is not found", err)
	}
	if result := p.Launch(t.Context(), []cloud.LaunchRequest{{Token: "a", Class: rack.Class("default")}})[0]; result.Err == nil || errors.As(result.Err, new(*cloud.Failure)) {
		t.Errorf("a launch without an answer: %v, want an error that says nothing of the outcome", result.Err)
	}
}

// thief has instances whose IDs are as those of KWOK.
type thief struct{ *rack.Provider }

func (thief) List(context.Context) ([]cloud.Instance, error) {
	return []cloud.Instance{{ID: "kwok://x"}}, nil
}

func (thief) Launch(context.Context, []cloud.LaunchRequest) []cloud.LaunchResult {
	return []cloud.LaunchResult{{Instance: cloud.Instance{ID: "kwok://x"}}}
}

// TestAnIDOfAnotherProviderIsRefused has a provider answer with IDs that would be asked of the other one, which would
// say that they are gone.
func TestAnIDOfAnotherProviderIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p, err := multi.New(newKWOK(t, c), thief{rack.New(c)})
	if err != nil {
		t.Fatal(err)
	}
	const want = "provider rack has an instance kwok://x, whose ID has the form of those of provider kwok"
	if result := p.Launch(t.Context(), []cloud.LaunchRequest{{Token: "a", Class: rack.Class("default")}})[0]; result.Err == nil || result.Err.Error() != want {
		t.Errorf("Launch: %v, want %s", result.Err, want)
	}
	if _, err := p.List(t.Context()); err == nil || err.Error() != want {
		t.Errorf("List: %v, want %s", err, want)
	}
}

// namesake is another provider of rack's classes.
type namesake struct {
	*rack.Provider
	name string
}

func (n namesake) Name() string { return n.name }

// reserving has reservations.
type reserving struct{ namesake }

func (reserving) Vocabulary() cloud.Vocabulary { return cloud.Vocabulary{ReservationKey: "r"} }

type reservingKWOK struct{ *kwok.Provider }

func (reservingKWOK) Vocabulary() cloud.Vocabulary { return cloud.Vocabulary{ReservationKey: "k"} }

func TestProvidersThatCannotBeTogether(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for want, members := range map[string][]cloud.Provider{
		"the providers rack and other both have node classes of the kind ExampleNodeClass.example.dovetail.sh: it is not clear which of them a NodePool means": {rack.New(c), namesake{rack.New(c), "other"}},
		"two providers have the name rack":                             {rack.New(c), rack.New(c)},
		"the providers kwok and other both have reservations; one may": {reservingKWOK{newKWOK(t, c)}, reserving{namesake{rack.New(c), "other"}}},
		"no provider": nil,
	} {
		if _, err := multi.New(members...); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOnePlanForBoth plans pods that fit only nodes of one of two providers, and such as fit none. A label that only one of them
// knows keeps a pod from nodes of the other.
func TestOnePlanForBoth(t *testing.T) {
	t.Parallel()
	p := newBoth(t, newCluster(t))
	words := map[string]bool{}
	for _, key := range p.Vocabulary().WellKnown {
		words[key] = true
	}
	snap := &cluster.Snapshot{At: time.Unix(1, 0), WellKnown: words}
	for name, class := range map[string]cloud.ClassRef{"kwok": kwokClass("default"), "rack": rack.Class("default")} {
		types, err := p.Types(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := p.Types(t.Context(), class)
		if name == "kwok" && again[0] != types[0] {
			t.Error("the same types are others when they are asked for again")
		}
		snap.Pools = append(snap.Pools, cluster.Pool{Name: name, Types: types, Requirements: label.Requirements{corev1.LabelOSStable: label.In("linux")}})
	}
	slices.SortFunc(snap.Pools, func(a, b cluster.Pool) int { return strings.Compare(a.Name, b.Name) })
	pods := map[string]label.Requirements{
		"1-family": {kwokv1alpha1.InstanceFamilyLabelKey: label.In("c")}, "2-row": {rack.Row: label.In("north")}, "3-zone": {label.Zone: label.In("hall-1")},
		"4-both": {rack.Row: label.In("north"), kwokv1alpha1.InstanceFamilyLabelKey: label.In("c")},
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		snap.Pending = append(snap.Pending, cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Constraints: &cluster.Constraints{
			Namespace: "default", Requests: quantity.List{quantity.CPU: 1000, quantity.Pods: 1}, Terms: []label.Requirements{pods[name]},
		}})
	}
	plan, got := pack.Solve(snap, pack.Options{}), map[string]string{}
	for _, launch := range plan.Launches {
		for _, pod := range launch.Pods {
			got[pod.Name] = launch.Pool
		}
	}
	for _, refusal := range plan.Refusals {
		got[refusal.Pod.Name] = "refused"
	}
	if diff := cmp.Diff(map[string]string{"1-family": "kwok", "2-row": "rack", "3-zone": "rack", "4-both": "refused"}, got); diff != "" {
		t.Errorf("where pods are planned (-want +got):\n%s\n%+v", diff, plan.Refusals)
	}
}

// herd is a rack that can be asked about the drift of seven instances at once.
type herd struct{ *rack.Provider }

func (herd) Drifted(context.Context, cloud.ClassRef, string) (string, error) {
	return "ImageDrifted", nil
}
func (herd) DriftBatch(cloud.ClassRef) int { return 7 }

func (herd) DriftedOf(_ context.Context, _ cloud.ClassRef, ids []string) (map[string]cloud.Drift, error) {
	return map[string]cloud.Drift{ids[1]: {Reason: "ImageDrifted"}}, nil
}

// TestDriftOfManyIsAskedOfTheProviderOfTheClass: the other one cannot be asked so.
func TestDriftOfManyIsAskedOfTheProviderOfTheClass(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p, err := multi.New(newKWOK(t, c), herd{rack.New(c)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{7, 0, 0}, []int{p.DriftBatch(rack.Class("default")), p.DriftBatch(kwokClass("default")), p.DriftBatch(cloud.ClassRef{Kind: "Cloud"})}); diff != "" {
		t.Errorf("instances at once (-want +got):\n%s", diff)
	}
	answer, err := p.DriftedOf(t.Context(), rack.Class("default"), []string{"rack://a", "rack://b"})
	if diff := cmp.Diff(map[string]cloud.Drift{"rack://b": {Reason: "ImageDrifted"}}, answer); diff != "" || err != nil {
		t.Errorf("%v; answer (-want +got):\n%s", err, diff)
	}
	if answer, err := p.DriftedOf(t.Context(), kwokClass("default"), []string{"kwok://a"}); err == nil {
		t.Errorf("kwok was asked about many at once: %v", answer)
	}
}
