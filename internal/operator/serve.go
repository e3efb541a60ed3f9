package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decision/history"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/view/live"
	"github.com/dovetail-sh/dovetail/internal/view/web"
)

const (
	// headerPatience bounds how long a client may take to say what it wants.
	headerPatience = 10 * time.Second
	// answerPatience bounds how long it may take to read the answer, the making included: a
	// profile lasts 30 seconds.
	answerPatience = time.Minute
	// anyAddress and loopback are where a server listens: pods of others reach the first only.
	anyAddress, loopback = "", "127.0.0.1"
)

// server answers for the process: /metrics on one port, /healthz and /readyz on another, and
// on a third, which nobody else's pod reaches, what reports the whole cluster: /debug, and pages at /.
// It lives as long as the process, so that a process that waits for its cluster is seen
// to be alive.
type server struct {
	metrics, health, debug endpoint
	// ready returns an error that says what is missing; no function: everything.
	ready atomic.Pointer[func() error]
}

// endpoint is one port and who answers there.
type endpoint struct {
	http.Server
	listener net.Listener // nil: nobody listens
}

// serve binds the ports and answers on them. The error names the flag of a port that is taken.
func serve(s *Settings, scrape http.Handler, kept *journal.Journal, views *live.Views, leads *leadership) (*server, error) {
	metrics, probes, debug := http.NewServeMux(), http.NewServeMux(), http.NewServeMux()
	srv := &server{}
	metrics.Handle("/metrics", scrape)
	probes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	probes.HandleFunc("/readyz", srv.answerReady)
	if s.JournalMemoryBytes > 0 {
		decisions := leads.leaderOnly(kept.Handler())
		debug.Handle(journal.Path, decisions)
		debug.Handle(journal.Path+"/", decisions)
		debug.Handle(live.Path+"/", leads.leaderOnly(views.Handler()))
		debug.Handle("GET "+TermsPath, leads.leaderOnly(terms(s, views)))
		debug.Handle("/", leads.leaderOnly(web.Handler(views, &history.Live{Journal: kept, Now: views.Now})))
	}
	if s.EnableProfiling {
		addProfiling(debug)
	}
	err := cmp.Or(
		srv.metrics.open("metrics-port", anyAddress, s.MetricsPort, metrics),
		srv.health.open("health-probe-port", anyAddress, s.HealthProbePort, probes),
	)
	if err == nil && (s.JournalMemoryBytes > 0 || s.EnableProfiling) {
		err = srv.debug.open("debug-port", loopback, s.DebugPort, LoopbackOnly(debug))
	}
	if err != nil {
		srv.close()
		return nil, err
	}
	return srv, nil
}

// open listens and answers.
func (e *endpoint) open(flag, host string, port int, handler http.Handler) error {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
	if err != nil {
		return fmt.Errorf("--%s %d: %w; stop what listens there or choose another port", flag, port, errors.Unwrap(err))
	}
	e.listener = l
	e.Handler, e.ReadHeaderTimeout, e.ReadTimeout, e.WriteTimeout = handler, headerPatience, headerPatience, answerPatience
	go func() { _ = e.Serve(l) }()
	return nil
}

// address returns where the endpoint listens; empty: nowhere.
func (e *endpoint) address() string {
	if e.listener == nil {
		return ""
	}
	return e.listener.Addr().String()
}

func addProfiling(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

func (s *server) answerReady(w http.ResponseWriter, _ *http.Request) {
	err := errors.New("waiting for the cluster")
	if check := s.ready.Load(); check != nil {
		err = (*check)()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// setReady sets the check behind /readyz; nil: not ready.
func (s *server) setReady(check func() error) {
	if check == nil {
		s.ready.Store(nil)
		return
	}
	s.ready.Store(&check)
}

func (s *server) close() {
	for _, e := range []*endpoint{&s.metrics, &s.health, &s.debug} {
		_ = e.Close()
	}
}
