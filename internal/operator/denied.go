package operator

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// refusalBytes is how much of a refusal is read.
	refusalBytes = 4 << 10
	// deniedFor is how long a right counts as missing after it was last missed, and deniedMost
	// bounds how many are remembered.
	deniedFor  = 5 * time.Minute
	deniedMost = 200
)

// denials are the requests that the API server refuses for want of a right. Each is logged once,
// with the rule that is missing, until such a request is granted.
type denials struct {
	now func() time.Time
	log *slog.Logger

	mu     sync.Mutex // protects missed
	missed map[right]denial
}

// right is what a rule of RBAC can give. An informer needs get, list and watch at once.
type right struct {
	group, resource, verbs string
	// namespace and name are those of what is allowed by a Role; the rest is allowed everywhere.
	namespace, name string
}

type denial struct {
	message string
	last    time.Time
}

func newDenials(now func() time.Time, log *slog.Logger) *denials {
	return &denials{now: now, log: log, missed: map[right]denial{}}
}

// err names the rules that are missing; nil: none is.
func (d *denials) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var messages []string
	for _, m := range d.missed {
		if d.now().Sub(m.last) < deniedFor {
			messages = append(messages, m.message)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	return fmt.Errorf("rights are missing: %s", strings.Join(messages, "; "))
}

// transport returns a way to the API server on which refusals are noted.
func (d *denials) transport(next http.RoundTripper) http.RoundTripper { return noting{next, d} }

type noting struct {
	next    http.RoundTripper
	denials *denials
}

// RoundTrip sends a request and looks at what became of it.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	asked, is := rightOf(r)
	switch {
	case !is:
	case answer.StatusCode == http.StatusForbidden:
		head, err := io.ReadAll(io.LimitReader(answer.Body, refusalBytes))
		answer.Body = rejoined{io.MultiReader(bytes.NewReader(head), failing{err}, answer.Body), answer.Body}
		if who := forWantOfARight.FindSubmatch(head); who != nil {
			n.denials.deny(asked, string(who[1]))
		}
	case answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusTooManyRequests:
		n.denials.grant(asked) // what is not found or not valid was allowed
	}
	return answer, nil
}

// forWantOfARight is how the API server words a refusal of its authorizers; those of admission are
// worded otherwise. The quotes are escaped in JSON.
var forWantOfARight = regexp.MustCompile(`User \\?"([^"\\]+)\\?" cannot \w+ resource `)

// rejoined is a body whose beginning was read.
type rejoined struct {
	io.Reader
	io.Closer
}

// failing is a reader that has only an error, or nothing.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// rightOf returns the right that a request needs; false: it is not for a resource.
func rightOf(r *http.Request) (right, bool) {
	t, ok := targetOf(r.URL.Path)
	if !ok {
		return right{}, false
	}
	out := right{group: t.group, resource: t.resource}
	if t.subresource != "" {
		out.resource += "/" + t.subresource
	}
	verbs, known := verbsOf[r.Method]
	out.verbs = verbs
	if t.namespace != "" && slices.Contains(ofRoles, out.resource) {
		out.namespace, out.name = t.namespace, t.name
		return out, known
	}
	if r.Method == http.MethodGet {
		out.verbs = "get, list, watch" // what is read is kept in a cache
	}
	return out, known
}

// ofRoles are the resources that a Role allows, by name.
var ofRoles = []string{"leases", "services"} //nolint:gochecknoglobals // a constant

// verbsOf are the verbs of RBAC, by the method of a request for one object.
var verbsOf = map[string]string{ //nolint:gochecknoglobals // a constant
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// rule says what is to be added where.
func (r right) rule() string {
	role, names := "ClusterRole", ""
	if r.namespace != "" {
		role = "Role in " + r.namespace
	}
	if r.name != "" {
		names = fmt.Sprintf(" resourceNames: [%s],", r.name)
	}
	return fmt.Sprintf("add to the %s: {apiGroups: [%q], resources: [%s],%s verbs: [%s]}", role, r.group, r.resource, names, r.verbs)
}

func (d *denials) deny(r right, user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, known := d.missed[r]
	if !known && len(d.missed) >= deniedMost {
		clear(d.missed)
	}
	m.last = d.now()
	if !known {
		m.message = r.rule()
		d.log.Error("right is missing", "user", user, "error", m.message)
	}
	d.missed[r] = m
}

func (d *denials) grant(r right) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.missed[r]; known {
		delete(d.missed, r)
		d.log.Info("right is granted now", "rule", r.rule())
	}
}
