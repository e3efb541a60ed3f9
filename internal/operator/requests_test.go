package operator

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// answers is a server that answers every path with a status.
type answers map[string]int

// RoundTrip answers.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, known := a[r.URL.Path]
	if !known {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

func TestRequestsToTheAPIServerAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	reg := prometheus.NewRegistry()
	const pods, claim = "/api/v1/namespaces/default/pods/web/eviction", "/apis/karpenter.sh/v1/nodeclaims/a"
	client := http.Client{Transport: counting{answers{pods: 429, claim: 200, "/version": 200}, observe.NewMetrics(reg), clock}}
	for _, r := range [][2]string{{"POST", pods}, {"POST", pods}, {"PATCH", claim}, {"GET", "/version"}, {"GET", "/api/v1/nodes"}} {
		request, err := http.NewRequestWithContext(t.Context(), r[0], "http://server"+r[1], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(request); err == nil {
			_ = answer.Body.Close()
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += l.GetName() + "=" + l.GetValue() + " "
			}
			switch f.GetName() {
			case "client_go_request_total":
				got[key] = m.GetCounter().GetValue()
			case "client_go_request_duration_seconds":
				got[key] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	want := map[string]float64{
		"code=429 method=POST ": 2, "code=200 method=PATCH ": 1, "code=200 method=GET ": 1, "code=<error> method=GET ": 1,
		"group= kind=pods subresource=eviction verb=POST version=v1 ":            2,
		"group=karpenter.sh kind=nodeclaims subresource= verb=PATCH version=v1 ": 1,
		"group= kind= subresource= verb=GET version= ":                           1,
		"group= kind=nodes subresource= verb=GET version=v1 ":                    1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
