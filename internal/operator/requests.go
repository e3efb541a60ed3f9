package operator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/observe"
)

// target is what a request to the API server is for.
type target struct{ group, version, namespace, resource, name, subresource string }

// targetOf reads the path of a request; false: it is not for a resource.
func targetOf(path string) (t target, ok bool) {
	words := strings.Split(path, "/")
	i := slices.IndexFunc(words, func(w string) bool { return w == "api" || w == "apis" })
	if i < 0 {
		return t, false
	}
	rest := words[i+1:]
	if words[i] == "apis" && len(rest) > 0 {
		t.group, rest = rest[0], rest[1:]
	}
	if len(rest) < 2 {
		return t, false
	}
	t.version, rest = rest[0], rest[1:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		t.namespace, rest = rest[1], rest[2:]
	}
	t.resource = rest[0]
	if len(rest) > 1 {
		t.name = rest[1]
	}
	if len(rest) > 2 {
		t.subresource = rest[2]
	}
	return t, true
}

// counting is a way to the API server on which requests are counted and timed.
type counting struct {
	next    http.RoundTripper
	metrics *observe.Metrics
	now     func() time.Time
}

// RoundTrip sends a request.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	start := c.now()
	answer, err := c.next.RoundTrip(r)
	code := "<error>" // as client-go calls it
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	c.metrics.ClientRequests.WithLabelValues(code, r.Method).Inc()
	t, _ := targetOf(r.URL.Path)
	c.metrics.ClientRequestDuration.WithLabelValues(r.Method, t.group, t.version, t.resource, t.subresource).Observe(c.now().Sub(start).Seconds())
	return answer, err
}
