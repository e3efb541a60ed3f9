// Package loops starts the controllers under test on a control plane of their own, as the
// operator would: with our definitions installed, the indexes made, and metrics and
// events that can be looked at. Only tests outside the package that they test can use it,
// since it knows what the operator knows.
package loops

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/dovetail-sh/dovetail/config/crd"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/operator"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

// Loops is a control plane and what loops need to work in it.
type Loops struct {
	// WithWatch reads and writes past the manager's cache.
	client.WithWatch
	Manager  manager.Manager
	Registry *prometheus.Registry
	Metrics  *observe.Metrics
	Events   *observe.Recorder
	Log      *slog.Logger
}

// Loop is a loop or controller that adds itself to a manager.
type Loop interface {
	Register(mgr manager.Manager) error
}

// New starts a control plane for one test and makes a manager, which is not running yet.
func New(t testing.TB, now func() time.Time) *Loops {
	t.Helper()
	cluster := testkit.StartCluster(t)
	l := &Loops{Registry: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	l.Metrics = observe.NewMetrics(l.Registry)
	definitions := t.TempDir()
	must(t, os.CopyFS(definitions, crd.Files()))
	_, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: []string{definitions}, ErrorIfPathMissing: true})
	must(t, err)
	scheme := operator.Scheme()
	l.WithWatch, err = client.NewWithWatch(cluster.Config, client.Options{Scheme: scheme})
	must(t, err)
	skip := true // several managers of one process have the same controllers
	l.Manager, err = ctrl.NewManager(cluster.Config, manager.Options{
		Scheme: scheme, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: &skip},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	must(t, err)
	must(t, mirror.AddIndexes(t.Context(), l.Manager.GetFieldIndexer()))
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	must(t, err)
	recorder, stop := observe.NewEventRecorder(clientset, scheme)
	t.Cleanup(stop)
	l.Events = observe.NewRecorder(recorder, now)
	return l
}

// Run registers the loops and lets them work until the test ends.
func (l *Loops) Run(t testing.TB, loops ...Loop) {
	t.Helper()
	for _, loop := range loops {
		must(t, loop.Register(l.Manager))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- l.Manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	if !l.Manager.GetCache().WaitForCacheSync(t.Context()) { // till then nothing can be read
		t.Fatal("the manager's cache did not start")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
