package observe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// failing is a provider of which Launch fails in every way there is.
type failing struct{ cloud.Provider }

func (failing) Name() string { return "test" }

func (failing) Terminate(context.Context, string) error {
	return fmt.Errorf("terminate x: %w", cloud.ErrNotFound)
}

func (failing) Launch(context.Context, []cloud.LaunchRequest) []cloud.LaunchResult {
	return []cloud.LaunchResult{
		{Err: &cloud.Failure{Kind: cloud.NoCapacity}},
		{Err: &cloud.Failure{Kind: cloud.ClassNotReady}},
		{Err: &cloud.Failure{Kind: cloud.Rejected}},
		{Err: errors.New("lost")},
		{Instance: cloud.Instance{ID: "i-1"}},
	}
}

func TestMeasuredCountsCallsAndErrorsByKind(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	now := time.Unix(0, 0)
	p := Measured(failing{}, "some.loop", NewMetrics(reg), func() time.Time {
		now = now.Add(time.Second)
		return now
	})
	results := p.Launch(t.Context(), []cloud.LaunchRequest{
		{Labels: map[string]string{"karpenter.sh/nodepool": "p"}}, {Labels: map[string]string{"karpenter.sh/nodepool": "q"}}, {}, {}, {},
	})
	if len(results) != 5 || results[4].Instance.ID != "i-1" {
		t.Errorf("Launch() = %+v, want the provider's answers", results)
	}
	if err := ForPool(p, "p").Terminate(t.Context(), "x"); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("Terminate() = %v, want the provider's error", err)
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := family.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue() // in the order of the labels' names
			}
			switch family.GetName() {
			case "karpenter_cloudprovider_errors_total":
				got[key] = m.GetCounter().GetValue()
			case "karpenter_cloudprovider_duration_seconds":
				got[key] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	want := map[string]float64{
		"karpenter_cloudprovider_duration_seconds some.loop Create test":                         1,
		"karpenter_cloudprovider_duration_seconds some.loop Delete test":                         1,
		"karpenter_cloudprovider_errors_total some.loop InsufficientCapacityError Create p test": 1,
		"karpenter_cloudprovider_errors_total some.loop NodeClassNotReadyError Create q test":    1,
		"karpenter_cloudprovider_errors_total some.loop unknown Create  test":                    2,
		"karpenter_cloudprovider_errors_total some.loop NodeClaimNotFoundError Delete p test":    1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
