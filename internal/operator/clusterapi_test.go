package operator

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestAnObserverWritesToNoManagementCluster sends reads and writes to a management cluster of its own.
func TestAnObserverWritesToNoManagementCluster(t *testing.T) {
	t.Parallel()
	for mode, writes := range map[string]bool{ModeActive: true, ModeObserve: false} {
		o := &Options{Config: &rest.Config{UserAgent: "test"}, Log: slog.New(slog.DiscardHandler), fence: NewFence(time.Now, func(error) {})}
		o.Settings.Mode, o.Settings.ClusterAPIURL = mode, "https://management.example.com"
		config, err := o.managementConfig(&rest.Config{Host: "https://own.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://management.example.com" {
			t.Errorf("%s: it asks %s", mode, config.Host)
		}
		sent := 0
		way, err := rest.HTTPWrappersForConfig(config, roundTrip(func(*http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string]bool{"GET": true, "POST": writes, "PATCH": writes, "DELETE": writes} {
			before := sent
			_, err := way.RoundTrip(httptest.NewRequest(method, config.Host+"/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusters/b", http.NoBody)) //nolint:bodyclose // it has none
			if (sent > before) != want || !want && !errors.Is(err, errObserves) {
				t.Errorf("%s: %s: sent: %t, error: %v", mode, method, sent > before, err)
			}
		}
	}
}
