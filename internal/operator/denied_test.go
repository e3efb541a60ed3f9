package operator

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is an API server that answers all requests alike.
type answering struct {
	status int
	body   string
}

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

const (
	wantOfRight = `{"kind":"Status","message":"x is forbidden: User \"system:serviceaccount:kube-system:dovetail\" cannot list resource \"x\" in API group \"\" at the cluster scope","reason":"Forbidden","code":403}`
	ofAdmission = `{"kind":"Status","message":"admission webhook \"no.example.com\" denied the request: User \"x\" should not","reason":"Forbidden","code":403}`
)

func TestAMissingRightIsReportedAsARule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, path, body, want string }{
		"of an informer": {"GET", "/api/v1/limitranges", wantOfRight, `add to the ClusterRole: {apiGroups: [""], resources: [limitranges], verbs: [get, list, watch]}`},
		"of a watch":     {"GET", "/apis/karpenter.sh/v1/nodepools?watch=true", wantOfRight, `add to the ClusterRole: {apiGroups: ["karpenter.sh"], resources: [nodepools], verbs: [get, list, watch]}`},
		"of a write":     {"PATCH", "/api/v1/nodes/n1", wantOfRight, `add to the ClusterRole: {apiGroups: [""], resources: [nodes], verbs: [patch]}`},
		"of a subresource, in whatever namespace": {
			"POST", "/api/v1/namespaces/shop/pods/web-1/eviction", wantOfRight, `add to the ClusterRole: {apiGroups: [""], resources: [pods/eviction], verbs: [create]}`,
		},
		"of a lease": {
			"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election", wantOfRight,
			`add to the Role in kube-system: {apiGroups: ["coordination.k8s.io"], resources: [leases], resourceNames: [karpenter-leader-election], verbs: [update]}`,
		},
		"behind a prefix":           {"DELETE", "/k8s/clusters/c-1/apis/karpenter.sh/v1/nodeclaims/a", wantOfRight, `add to the ClusterRole: {apiGroups: ["karpenter.sh"], resources: [nodeclaims], verbs: [delete]}`},
		"an object named api":       {"GET", "/api/v1/namespaces/api", wantOfRight, `add to the ClusterRole: {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}`},
		"admission is no right":     {"POST", "/apis/karpenter.sh/v1/nodeclaims", ofAdmission, ""},
		"what is no resource isn't": {"GET", "/version", wantOfRight, ""},
		"nor is discovery":          {"GET", "/apis/karpenter.sh/v1", wantOfRight, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDenials(time.Now, slog.New(slog.DiscardHandler))
			answer, err := d.transport(&answering{http.StatusForbidden, c.body}).RoundTrip(httptest.NewRequest(c.method, c.path, nil)) //nolint:bodyclose // it is a string
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(answer.Body); err != nil || string(body) != c.body {
				t.Errorf("the client reads %q, error %v", body, err)
			}
			want := "rights are missing: " + c.want
			if got := d.err(); (got == nil) != (c.want == "") || got != nil && got.Error() != want {
				t.Errorf("reported %v, want %s", got, want)
			}
		})
	}
}

func TestAMissingRightIsLoggedOnceUntilItIsThere(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(0, 0)
	d := newDenials(func() time.Time { return now }, slog.New(slog.NewJSONHandler(&log, nil)))
	server := &answering{http.StatusForbidden, wantOfRight}
	way := d.transport(server)
	ask := func() {
		t.Helper()
		if _, err := way.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)); err != nil { //nolint:bodyclose // it is a string
			t.Fatal(err)
		}
	}
	lines := func() int { return strings.Count(log.String(), `"level":"ERROR"`) }
	for range 100 {
		ask()
	}
	if lines() != 1 || d.err() == nil {
		t.Errorf("denied 100 times: %d lines, reported %v", lines(), d.err())
	}
	if now = now.Add(deniedFor); d.err() != nil {
		t.Errorf("long after nobody asked any more: %v", d.err())
	}
	for _, status := range []int{http.StatusOK, http.StatusNotFound, http.StatusConflict} {
		server.status = http.StatusForbidden
		ask()
		server.status = status
		if ask(); d.err() != nil {
			t.Errorf("answered %d: %v", status, d.err())
		}
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		server.status = http.StatusForbidden
		ask()
		server.status = status
		if ask(); d.err() == nil {
			t.Errorf("answered %d, which says nothing of rights, and none is missing", status)
		}
	}
	before := lines()
	server.status = http.StatusOK
	ask()
	server.status = http.StatusForbidden
	if ask(); lines() != before+1 || d.err() == nil {
		t.Errorf("taken away again: %d lines, reported %v", lines(), d.err())
	}
}
