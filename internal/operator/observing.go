package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"k8s.io/client-go/tools/record"

	"github.com/dovetail-sh/dovetail/internal/kube/apply"
)

// Values of --mode.
const (
	// ModeActive: decisions are carried out.
	ModeActive = "active"
	// ModeObserve: decisions are made, logged and kept, and nothing is changed.
	ModeObserve = "observe"
)

// ObserverLeaseSuffix ends the name of the lease of a controller in observe mode. So it never has the lease by
// which controllers that launch nodes exclude each other.
const ObserverLeaseSuffix = "-observe"

// errObserves is why nothing is launched, ended or restarted.
var errObserves = errors.New("this controller only observes (--mode=observe)")

// observes reports whether nothing is to be changed.
func (s *Settings) observes() bool { return s.Mode == ModeObserve }

// leaseName returns the name of the lease.
func (s *Settings) leaseName() string {
	if s.observes() {
		return s.LeaderElectionName + ObserverLeaseSuffix
	}
	return s.LeaderElectionName
}

// onlyObserve puts the gate of observe mode before every client of the API server, if that is the mode.
func (o *Options) onlyObserve() {
	if !o.Settings.observes() {
		return
	}
	o.Config.Wrap(readOnly{namespace: leaseNamespace(&o.Settings), lease: o.Settings.leaseName(), log: o.Log}.wrap)
	o.Log.Info("this controller only observes: nothing is changed in the cluster or the cloud", "mode", ModeObserve, "lease", o.Settings.leaseName())
}

// readOnly is a way to the API server on which only reads are sent, and writes of the process's own lease. It is
// the last gate in observe mode: no loop that is registered then asks for more.
type readOnly struct {
	next http.RoundTripper
	// namespace and lease name the process's own; an empty lease: it has none there.
	namespace, lease string
	log              *slog.Logger
}

// wrap returns the same gate before another transport.
func (t readOnly) wrap(next http.RoundTripper) http.RoundTripper {
	t.next = next
	return t
}

// RoundTrip sends a request, unless it could change anything but the lease.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.allows(r) {
		return t.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // nobody has read it
	}
	t.log.Error("a request was not sent", "method", r.Method, "path", r.URL.Path, "error", errObserves)
	return nil, fmt.Errorf("%s %s was not sent: %w", r.Method, r.URL.Path, errObserves)
}

// connecting are the subresources of which a GET reaches into a pod, a node or a service.
var connecting = []string{"exec", "attach", "portforward", "proxy"} //nolint:gochecknoglobals // a constant

func (t readOnly) allows(r *http.Request) bool {
	target, isResource := targetOf(r.URL.Path)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return !slices.Contains(connecting, target.subresource)
	case http.MethodPost, http.MethodPut:
	default:
		return false
	}
	own := t.lease != "" && isResource && target.group == "coordination.k8s.io" && target.resource == "leases" && target.subresource == "" && target.namespace == t.namespace
	// The name of a lease that is created is in the body. RBAC cannot limit it either; only the election creates any.
	return own && (target.name == t.lease || r.Method == http.MethodPost && target.name == "")
}

// silent is a recorder of events that writes none: an event is an object, and so a write.
func silent() record.EventRecorder { return &record.FakeRecorder{} }

// observers returns the loops that decide and observe, and write nothing.
func (p *Parts) observers() []registrant {
	quarantine := &apply.Quarantine{}
	launcher := func() *apply.Launcher { // it takes snapshots
		return &apply.Launcher{Client: p.Manager.GetClient(), Mirror: p.mirror, Vocabulary: p.vocabulary, PoolLaunches: &apply.PoolLaunches{}}
	}
	types, packing := p.catalog(), p.Settings.packing()
	for _, provider := range p.providers() {
		p.listen(provider, types)
	}
	return []registrant{types, p.provisioner(launcher(), packing, quarantine), p.disrupter(launcher(), packing, quarantine), p.podMetrics()}
}
