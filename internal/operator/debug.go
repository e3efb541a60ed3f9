package operator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// HeaderLeader names the replica that leads, in the answer of one that does not.
const HeaderLeader = "Dovetail-Leader"

// Labels of the lease say where the replica that holds it answers, always on its loopback address.
const (
	// LabelDebugPort is its debug port; empty: it has none.
	LabelDebugPort = "dovetail.sh/debug-port"
	// LabelRunsIn is RunsInPod, which a port is forwarded to, or RunsOnHost.
	LabelRunsIn = "dovetail.sh/runs-in"
	RunsInPod   = "pod"
	RunsOnHost  = "host"
)

// leadership is who leads, as the election saw it last.
type leadership struct {
	// me is the identity under which this replica takes the lease.
	me string
	// alone: there is no election, this replica leads.
	alone  bool
	holder atomic.Pointer[string]
}

// observe returns a lock that remembers who holds the lease.
func (l *leadership) observe(lock resourcelock.Interface) resourcelock.Interface {
	return &observedLock{Interface: lock, leads: l}
}

// leader returns the host of the replica that leads, and whether it is this one. Empty: nobody is known to.
func (l *leadership) leader() (host string, isMe bool) {
	if l.alone {
		return "", true
	}
	holder := l.holder.Load()
	if holder == nil {
		return "", false
	}
	host, _, _ = strings.Cut(*holder, "_")
	return host, *holder == l.me
}

// labelled returns a lock whose lease has labels that say where the debug port of this replica is.
func labelled(lock resourcelock.Interface, debugAddress string) resourcelock.Interface {
	lease, is := lock.(*resourcelock.LeaseLock)
	if !is {
		return lock
	}
	_, port, err := net.SplitHostPort(debugAddress)
	if err != nil {
		port = ""
	}
	lease.Labels = map[string]string{LabelDebugPort: port, LabelRunsIn: RunsOnHost}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" { // as in every container of a pod
		lease.Labels[LabelRunsIn] = RunsInPod
	}
	return lease
}

type observedLock struct {
	resourcelock.Interface
	leads *leadership
}

// Get reads the lease.
func (l *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.leads.holder.Store(&record.HolderIdentity)
	}
	return record, raw, err
}

// Create takes the lease for the first time.
func (l *observedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Create(ctx, r))
}

// Update takes, renews or releases the lease.
func (l *observedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, l.Interface.Update(ctx, r))
}

func (l *observedLock) note(r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.leads.holder.Store(&r.HolderIdentity)
	}
	return err
}

// leaderOnly answers in place of a replica that does not lead: it has no decisions, or old ones. The answer
// names the replica to ask. With ?standby=true this replica answers nevertheless.
func (l *leadership) leaderOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leader, isMe := l.leader()
		if isMe || r.URL.Query().Get("standby") == "true" {
			next.ServeHTTP(w, r)
			return
		}
		if leader == "" {
			http.Error(w, "this replica does not lead, and none is known to: nothing is decided; ask again when one has the lease", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set(HeaderLeader, leader)
		http.Error(w, fmt.Sprintf("this replica is on standby and decides nothing; %s leads: kubectl port-forward -n NAMESPACE pod/%s 8082", leader, leader), http.StatusMisdirectedRequest)
	})
}

// LoopbackOnly refuses requests that were sent to another name than this computer's own: a page in the
// browser of somebody who has forwarded the port could otherwise read it, under a name of its own that
// resolves to the loopback address.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, fmt.Sprintf("the debug port answers requests to localhost only, not to %q", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
