package awssim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// bodyMax is the largest request that is read; AWS has such a bound, too.
const bodyMax = 1 << 20

// apiError is a refusal in AWS' form.
type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// fail returns a refusal with status 400.
func fail(code, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// call is one request to one operation.
type call struct {
	service, operation, requestID string
	form                          *form           // Query services
	doc                           map[string]any  // JSON services
	path                          string          // REST services: what stands for the resource
	token                         string          // NextToken
	now, began                    time.Time       // began: when a long poll did
	size                          int             // of the body
	ctx                           context.Context //nolint:containedctx // a call is one request's
}

// operation answers a call: fields for XML services, any for JSON ones.
type operation func(c *call) (any, error)

// tryAgain is what a long poll without a message returns.
type tryAgain struct{ after time.Duration }

func (*tryAgain) Error() string { return "nothing yet" }

// parseCall finds out the service and the operation of a request and reads the body.
func parseCall(r *http.Request, body []byte) (*call, error) {
	c := &call{form: &form{}, size: len(body), ctx: r.Context()}
	sig, err := parseSignature(r.Header.Get("Authorization"))
	if err != nil {
		return c, err
	}
	c.service = sig.service
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		_, c.operation, _ = strings.Cut(target, ".")
		if err := json.Unmarshal(body, &c.doc); err != nil {
			return c, fail("SerializationException", "%v", err)
		}
		c.token, _ = c.doc["NextToken"].(string)
		return c, nil
	}
	if c.service == "eks" || c.service == "arc-zonal-shift" {
		c.operation, c.path = restOperation(r)
		c.token = r.URL.Query().Get("nextToken")
		return c, nil
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return c, fail("MalformedQueryString", "%v", err)
	}
	c.form = parseForm(values)
	c.operation, c.token = c.form.text("Action"), c.form.text("NextToken")
	return c, nil
}

// restOperation returns the operation of a REST request, by its path.
func restOperation(r *http.Request) (operation, resource string) {
	if cluster, group, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/clusters/"), "/node-groups"); ok && r.Method == http.MethodGet {
		if group == "" {
			return "ListNodegroups", cluster
		}
		return "DescribeNodegroup", cluster + group
	}
	for prefix, name := range map[string]string{"/clusters/": "DescribeCluster", "/managedresources/": "GetManagedResource"} {
		if rest, ok := strings.CutPrefix(r.URL.Path, prefix); ok && r.Method == http.MethodGet && (name != "DescribeCluster" || !strings.Contains(rest, "/")) {
			return name, rest
		}
	}
	return r.Method + " " + r.URL.Path, ""
}

// dryRun is EC2's yes to a request that asked whether it would do.
func dryRun(c *call) error {
	if c.form.flag("DryRun") {
		return &apiError{http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	return nil
}
