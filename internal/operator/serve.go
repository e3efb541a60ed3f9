package operator

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dovetail-sh/dovetail/internal/journal"
)

// headerPatience bounds how long a client may take to say what it wants.
const headerPatience = 10 * time.Second

// server answers for the process: /metrics and /debug/journal on one port, /healthz and /readyz on another.
// It lives as long as the process, so that a process that waits for its cluster is seen
// to be alive.
type server struct {
	metrics, health             *http.Server
	metricsListen, healthListen net.Listener
	// ready tells what is missing; no function: everything.
	ready atomic.Pointer[func() error]
}

// serve binds both ports and answers on them. The error names the flag of a port that is taken.
func serve(s *Settings, gatherer prometheus.Gatherer, kept *journal.Journal) (*server, error) {
	srv := &server{}
	var err error
	if srv.metricsListen, err = listen("metrics-port", s.MetricsPort); err != nil {
		return nil, err
	}
	if srv.healthListen, err = listen("health-probe-port", s.HealthProbePort); err != nil {
		return nil, errors.Join(err, srv.metricsListen.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	if s.JournalMemoryBytes > 0 {
		mux.Handle(journal.Path, kept.Handler())
		mux.Handle(journal.Path+"/", kept.Handler())
	}
	if s.EnableProfiling {
		addProfiling(mux)
	}
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	probes.HandleFunc("/readyz", srv.answerReady)
	srv.metrics = &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience}
	srv.health = &http.Server{Handler: probes, ReadHeaderTimeout: headerPatience}
	go func() { _ = srv.metrics.Serve(srv.metricsListen) }()
	go func() { _ = srv.health.Serve(srv.healthListen) }()
	return srv, nil
}

func listen(flag string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("--%s %d: %w; stop what listens there or choose another port", flag, port, errors.Unwrap(err))
	}
	return l, nil
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

func (s *server) metricsAddress() string { return s.metricsListen.Addr().String() }
func (s *server) healthAddress() string  { return s.healthListen.Addr().String() }

func (s *server) close() {
	_ = s.metrics.Close()
	_ = s.health.Close()
}
