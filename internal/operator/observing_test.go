package operator

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOnlyReadsAreSent asks the gate of observe mode for every verb of the API server.
func TestOnlyReadsAreSent(t *testing.T) {
	t.Parallel()
	const leases = "/apis/coordination.k8s.io/v1/namespaces/karpenter/leases"
	for what, c := range map[string]struct {
		method, path string
		sent         bool
	}{
		"get":                                   {"GET", "/api/v1/nodes/a", true},
		"list":                                  {"GET", "/api/v1/pods", true},
		"watch":                                 {"GET", "/apis/karpenter.sh/v1/nodeclaims?watch=true", true},
		"status of an object":                   {"GET", "/apis/apps/v1/namespaces/a/deployments/b/status", true},
		"discovery":                             {"GET", "/apis", true},
		"head":                                  {"HEAD", "/api/v1/nodes/a", true},
		"create a NodeClaim":                    {"POST", "/apis/karpenter.sh/v1/nodeclaims", false},
		"create as a dry run":                   {"POST", "/apis/karpenter.sh/v1/nodeclaims?dryRun=All", false},
		"update":                                {"PUT", "/apis/karpenter.sh/v1/nodepools/a", false},
		"patch a taint":                         {"PATCH", "/api/v1/nodes/a", false},
		"patch a status":                        {"PATCH", "/apis/karpenter.sh/v1/nodepools/a/status", false},
		"delete a node":                         {"DELETE", "/api/v1/nodes/a", false},
		"delete all NodeClaims":                 {"DELETE", "/apis/karpenter.sh/v1/nodeclaims", false},
		"evict":                                 {"POST", "/api/v1/namespaces/a/pods/b/eviction", false},
		"bind":                                  {"POST", "/api/v1/namespaces/a/pods/b/binding", false},
		"event":                                 {"POST", "/api/v1/namespaces/a/events", false},
		"event of events.k8s.io":                {"POST", "/apis/events.k8s.io/v1/namespaces/a/events", false},
		"run a command in a pod":                {"GET", "/api/v1/namespaces/a/pods/b/exec", false},
		"reach a kubelet":                       {"GET", "/api/v1/nodes/a/proxy/run", false},
		"no resource":                           {"POST", "/anything", false},
		"another verb":                          {"OPTIONS", "/api/v1/nodes", false},
		"take its own lease":                    {"POST", leases, true},
		"renew its own lease":                   {"PUT", leases + "/karpenter-leader-election-observe", true},
		"the lease of who leads":                {"PUT", leases + "/karpenter-leader-election", false},
		"its lease in another namespace":        {"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election-observe", false},
		"a lease of a node":                     {"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", false},
		"delete its own lease":                  {"DELETE", leases + "/karpenter-leader-election-observe", false},
		"patch its own lease":                   {"PATCH", leases + "/karpenter-leader-election-observe", false},
		"an object of its name and other kind":  {"PUT", "/apis/apps/v1/namespaces/karpenter/deployments/karpenter-leader-election-observe", false},
		"leases of another group of that name":  {"PUT", "/apis/example.com/v1/namespaces/karpenter/leases/karpenter-leader-election-observe", false},
		"behind a prefix, as of a proxy: patch": {"PATCH", "/k8s/clusters/c-1/api/v1/nodes/a", false},
		"behind a prefix: its own lease":        {"PUT", "/k8s/clusters/c-1" + leases + "/karpenter-leader-election-observe", true},
	} {
		reached := false
		next := roundTrip(func(*http.Request) (*http.Response, error) {
			reached = true
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		s := Settings{Mode: ModeObserve, LeaderElectionName: "karpenter-leader-election"}
		var log strings.Builder
		gate := readOnly{namespace: "karpenter", lease: s.leaseName(), log: slog.New(slog.NewTextHandler(&log, nil))}.wrap(next)
		body := &closing{}
		r := httptest.NewRequest(c.method, "https://example.com"+c.path, body)
		_, err := gate.RoundTrip(r) //nolint:bodyclose // it has none
		if reached != c.sent || (err == nil) != c.sent {
			t.Errorf("%s: sent: %t, error: %v", what, reached, err)
		}
		if !c.sent && (!errors.Is(err, errObserves) || !body.closed || !strings.Contains(log.String(), "a request was not sent")) {
			t.Errorf("%s: error %v, body closed: %t, log %q", what, err, body.closed, log.String())
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closing struct{ closed bool }

func (*closing) Read([]byte) (int, error) { return 0, io.EOF }

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestAnObserverNeverTakesTheLeaseOfWhoLeads gives a controller that leads and one that observes the same settings.
func TestAnObserverNeverTakesTheLeaseOfWhoLeads(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"karpenter-leader-election", "other", ""} {
		leads, observes := Settings{LeaderElectionName: name, Mode: ModeActive}, Settings{LeaderElectionName: name, Mode: ModeObserve}
		if leads.leaseName() != name || observes.leaseName() == name {
			t.Errorf("%q: who leads has the lease %q, who observes %q", name, leads.leaseName(), observes.leaseName())
		}
	}
}
