package remote_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote/serve"
)

// drifting is a server that answers about drift as the test wants.
type drifting struct {
	*serve.Server
	isOld  bool
	answer *providerv1.DriftResponse
}

func (d *drifting) Register(g grpc.ServiceRegistrar) { providerv1.RegisterProviderServer(g, d) }

func (d *drifting) Describe(ctx context.Context, request *providerv1.DescribeRequest) (*providerv1.DescribeResponse, error) {
	response, err := d.Server.Describe(ctx, request)
	response.Capabilities = append(response.Capabilities, providerv1.Capability_CAPABILITY_DRIFT)
	if !d.isOld {
		response.Capabilities = append(response.Capabilities, providerv1.Capability_CAPABILITY_DRIFT_BATCH)
		response.Limits = &providerv1.Limits{DriftBatch: 3}
	}
	return response, err
}

func (d *drifting) Drift(context.Context, *providerv1.DriftRequest) (*providerv1.DriftResponse, error) {
	return d.answer, nil
}

// texts returns answers as texts, by instance.
func texts(all map[string]cloud.Drift) map[string]string {
	out := map[string]string{}
	for id, is := range all {
		switch {
		case errors.Is(is.Err, cloud.ErrNotFound):
			out[id] = "not found"
		case is.Err != nil:
			out[id] = is.Err.Error()
		default:
			out[id] = is.Reason
		}
	}
	return out
}

// TestAnswersOfDriftAreMatchedByID asks about a, b and c at once.
func TestAnswersOfDriftAreMatchedByID(t *testing.T) {
	t.Parallel()
	type response = providerv1.DriftResponse
	for name, c := range map[string]struct {
		answer *response
		want   map[string]string // nil: an error
	}{
		"in another order":            {&response{NotDrifted: []string{"c", "a"}, Reasons: map[string]string{"b": "ImageDrifted"}}, map[string]string{"a": "", "b": "ImageDrifted", "c": ""}},
		"one is gone":                 {&response{NotDrifted: []string{"c", "a"}, NotFound: []string{"b"}}, map[string]string{"a": "", "b": "not found", "c": ""}},
		"one is left out":             {&response{NotDrifted: []string{"c", "a"}}, map[string]string{"a": "", "c": ""}},
		"all are left out":            {&response{}, map[string]string{}},
		"one is in two lists":         {&response{NotDrifted: []string{"a"}, NotFound: []string{"a"}}, nil},
		"one that nobody asked about": {&response{NotDrifted: []string{"a", "b", "c", "d"}}, nil},
		"a reason that is none":       {&response{Reasons: map[string]string{"a": "too old"}}, nil},
		"an empty reason":             {&response{Reasons: map[string]string{"a": ""}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := connect(t, listen(t, t, &drifting{Server: serve.New(&shop{}, serve.Options{Epoch: epoch()}), answer: c.answer}), fakeCluster(t)).(cloud.DriftBatcher)
			if n := p.DriftBatch(shopClass); n != 3 {
				t.Errorf("it may be asked about %d at once, want 3 as it says", n)
			}
			all, err := p.DriftedOf(t.Context(), shopClass, []string{"a", "b", "c"})
			if (err != nil) != (c.want == nil) {
				t.Fatalf("%v, %v", texts(all), err)
			}
			if diff := cmp.Diff(c.want, texts(all)); c.want != nil && diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			reason, err := p.Drifted(t.Context(), shopClass, "z")
			if err == nil {
				t.Errorf("an instance that no answer has: %q, want an error", reason)
			}
		})
	}
}

// TestAnOlderServerIsAskedAboutOneInstance: to it silence means that the instance has not drifted.
func TestAnOlderServerIsAskedAboutOneInstance(t *testing.T) {
	t.Parallel()
	p := connect(t, listen(t, t, &drifting{Server: serve.New(&shop{}, serve.Options{Epoch: epoch()}), isOld: true, answer: &providerv1.DriftResponse{}}), fakeCluster(t)).(cloud.DriftBatcher)
	if n := p.DriftBatch(shopClass); n != 0 {
		t.Errorf("it may be asked about %d at once, want that it may not", n)
	}
	if reason, err := p.Drifted(t.Context(), shopClass, "a"); reason != "" || err != nil {
		t.Errorf("%q, %v; want no drift", reason, err)
	}
}

// drifter is a shop that knows of drift. It may be asked about two instances at once, if at all.
type drifter struct{ *shop }

func (drifter) Drifted(_ context.Context, _ cloud.ClassRef, id string) (string, error) {
	switch id {
	case "gone":
		return "", cloud.ErrNotFound
	case "unclear":
		return "", errors.New("the cloud is away")
	case "old":
		return "ImageDrifted", nil
	}
	return "", nil
}

type batcher struct {
	drifter
	calls *[][]string
}

func (batcher) DriftBatch(cloud.ClassRef) int { return 2 }

func (b batcher) DriftedOf(ctx context.Context, class cloud.ClassRef, ids []string) (map[string]cloud.Drift, error) {
	*b.calls = append(*b.calls, ids)
	all := map[string]cloud.Drift{}
	for _, id := range ids {
		var is cloud.Drift
		is.Reason, is.Err = b.Drifted(ctx, class, id)
		all[id] = is
	}
	return all, nil
}

// TestDriftOfAProviderInGo: a provider in Go answers through the server for many at once, whether it can be asked so or not.
// What it does not know is not in the answer.
func TestDriftOfAProviderInGo(t *testing.T) {
	t.Parallel()
	var calls [][]string
	for name, provider := range map[string]cloud.Provider{"one by one": drifter{&shop{}}, "two at once": batcher{drifter{&shop{}}, &calls}} {
		p := connect(t, listen(t, t, serve.New(provider, serve.Options{Epoch: epoch()})), fakeCluster(t)).(cloud.DriftBatcher)
		all, err := p.DriftedOf(t.Context(), shopClass, []string{"new", "old", "unclear", "gone"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"new": "", "old": "ImageDrifted", "gone": "not found"}, texts(all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if reason, err := p.Drifted(t.Context(), shopClass, "unclear"); err == nil {
			t.Errorf("%s: what the provider does not know is %q, want an error", name, reason)
		}
	}
	if want := [][]string{{"new", "old"}, {"unclear", "gone"}, {"unclear"}}; !slices.EqualFunc(want, calls, slices.Equal) {
		t.Errorf("the provider was asked about %q, want %q", calls, want)
	}
}
