package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// TestTheKubeconfigMayChange rotates the token in a kubeconfig, breaks the file, and has it name another server.
func TestTheKubeconfigMayChange(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 10)
	serve := func(name string) string {
		server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent <- name + " " + r.Header.Get("Authorization") }))
		t.Cleanup(server.Close)
		return server.URL
	}
	first, second := serve("first"), serve("second")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := func(server, token string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: %s}}]}", server, token)
	}
	write(kubeconfig(first, "one"))
	var log strings.Builder
	o := &Options{Config: &rest.Config{}, Log: slog.New(slog.NewTextHandler(&log, nil)), fence: NewFence(time.Now, func(error) {})}
	o.Settings.ClusterAPIKubeconfig = path
	config, err := o.managementConfig(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ text, want, says string }{
		{"", "first Bearer one", ""},
		{kubeconfig(first, "two"), "first Bearer two", "was read again"},
		{"{", "first Bearer two", "cannot be used"},
		{kubeconfig(first, "three"), "first Bearer three", "was read again"},
		{kubeconfig(second, "four"), "first Bearer three", "its server is " + second},
	} {
		if step.text != "" {
			write(step.text)
		}
		log.Reset()
		for range 2 {
			answer, err := c.Get(config.Host)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if got := <-sent; got != step.want {
				t.Errorf("with %q: sent %q, want %q", step.text, got, step.want)
			}
		}
		if n := strings.Count(log.String(), "level="); n > 1 || !strings.Contains(log.String(), step.says) {
			t.Errorf("with %q the log has %q, want %q once", step.text, log.String(), step.says)
		}
	}
}
