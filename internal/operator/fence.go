package operator

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fenceAfter is how long a leader may act after it has renewed its lease. By then it has given
// up by itself (renewDeadline, and one more try), and nobody else has the lease yet: it runs out
// after 15 seconds.
const fenceAfter = 12 * time.Second

// namespaceFile has the pod's own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// errFenced is the error of requests of a leader that was held up.
var errFenced = errors.New("this replica was stopped for longer than its lease lasts: another one may lead by now")

// Fence keeps a leader that was held up (stopped, swapped out, moved to another host) from
// acting on what it knew before. Leader election alone notices that only at its next attempts to
// renew the lease, up to renewDeadline later.
type Fence struct {
	now  func() time.Time
	lost func(error)

	mu      sync.Mutex
	renewed time.Time // guarded by mu; zero: it has not been the leader yet
}

// NewFence returns the fence of a replica that is not the leader yet. Lost is called for each request
// that is refused.
func NewFence(now func() time.Time, lost func(error)) *Fence { return &Fence{now: now, lost: lost} }

// Check returns an error when the lease was not renewed for too long.
func (f *Fence) Check() error {
	f.mu.Lock()
	renewed := f.renewed
	f.mu.Unlock()
	now := f.now()
	// While a computer sleeps, one of its two clocks may stand still.
	if renewed.IsZero() || max(now.Sub(renewed), now.Round(0).Sub(renewed.Round(0))) < fenceAfter {
		return nil
	}
	f.lost(errFenced)
	return errFenced
}

// fence returns a lock that notifies the fence when the lease is renewed.
func (f *Fence) fence(lock resourcelock.Interface) resourcelock.Interface {
	return &fencedLock{Interface: lock, fence: f}
}

type fencedLock struct {
	resourcelock.Interface
	fence *Fence
}

// Create takes the lease for the first time.
func (l *fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.fence.Renew(func() error { return l.Interface.Create(ctx, r) })
}

// Update takes, renews or releases the lease. Who was held up does none of it: the lease that
// it would release may be another's.
func (l *fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	return l.fence.Renew(func() error { return l.Interface.Update(ctx, r) })
}

// Renew notes when a write of the lease began that succeeded.
func (f *Fence) Renew(write func() error) error {
	began := f.now()
	if err := write(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = began
	return nil
}

// transport returns a way to the API server on which all that changes something is fenced.
func (f *Fence) transport(next http.RoundTripper) http.RoundTripper {
	return fencedTransport{next, f}
}

type fencedTransport struct {
	next  http.RoundTripper
	fence *Fence
}

// RoundTrip sends a request, unless it is fenced.
func (t fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := t.fence.Check(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // nobody has read it
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

// doer is an HTTP client of the AWS SDK.
type doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// fencedDoer is a way to AWS on which everything is fenced: there, reading is a POST too.
type fencedDoer struct {
	doer
	fence *Fence
}

// Do sends a request, unless it is fenced.
func (d fencedDoer) Do(r *http.Request) (*http.Response, error) {
	if err := d.fence.Check(); err != nil {
		return nil, err
	}
	return d.doer.Do(r)
}

// leaseNamespace returns the namespace of the lease: the one given, the pod's own, or
// kube-system.
func leaseNamespace(s *Settings) string {
	if s.LeaderElectionNamespace != "" {
		return s.LeaderElectionNamespace
	}
	if b, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(b))
	}
	return metav1.NamespaceSystem
}
