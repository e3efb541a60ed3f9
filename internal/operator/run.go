package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/remote"
	"github.com/dovetail-sh/dovetail/internal/decision/journal"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/view/live"
)

const (
	// retryFirst and retryMost bound the wait between looks at an API server that is away
	// or lacks our kinds.
	retryFirst, retryMost = 500 * time.Millisecond, 5 * time.Second
	// stopPatience is how long loops may take to end, and endPatience how long the process may
	// take to do so in order: after that it ends as it is. What was under way is found again at
	// the next start, as after a crash.
	stopPatience, endPatience = 6 * time.Second, 8 * time.Second
)

// restartPause is the time before a new start, so that one that fails at once is not repeated hot.
const restartPause = time.Second

// Options are what Run needs besides the settings.
type Options struct {
	Settings Settings
	Config   *rest.Config
	Log      *slog.Logger
	Version  string
	Commit   string
	// AWS is the account to work in; nil: the one that the environment reports.
	AWS *aws.Account

	// link is the connection to a provider that is remote; nil: the provider is in this process.
	link *link
	// identity names the process to others that want the lease.
	identity string
	// journal keeps the decisions of all terms; nil: nobody does.
	journal *journal.Journal
	// views keeps what views are made from, over all terms.
	views *live.Latest
	// traces follows decisions, over all terms; nil: nobody does.
	traces *observe.Traces
	// leads is who leads, over all terms.
	leads *leadership
	// debugAddress is where /debug answers; empty: nowhere.
	debugAddress string
	// fence is that of the present term.
	fence *Fence
}

// Run runs the autoscaler until the context ends. What can heal is waited for, with one
// line that says what is missing: an API server that is away, kinds that are not
// installed, a lease that was lost. An error means that a person must change something. It
// returns within endPatience after the context's end, whatever hangs; the process must end then.
func Run(ctx context.Context, opts Options) error {
	return within(ctx, endPatience, func() error { return run(ctx, opts) })
}

// within returns what f does, or an error when it has not returned so long after the context's end.
func within(ctx context.Context, patience time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return fmt.Errorf("something still ran %s after the request to stop: stopping without it", patience)
	}
}

func run(ctx context.Context, opts Options) error {
	chosen := opts.Settings.CloudProvider == ""
	if err := opts.Settings.Validate(); err != nil {
		return err
	}
	if !opts.Settings.uses(providerRemote) {
		if _, err := detachedProvider(&opts); err != nil {
			return err
		}
	}
	opts.logSettings(chosen)
	limitMemory(opts.Settings.MemoryLimit)
	setLoggers(opts.Log)
	opts.Config = rest.CopyConfig(opts.Config)
	if err := opts.identify(); err != nil {
		return err
	}
	opts.Config.UserAgent = "karpenter/" + opts.Version
	opts.Config.QPS, opts.Config.Burst = float32(opts.Settings.KubeClientQPS), opts.Settings.KubeClientBurst
	opts.onlyObserve()

	m := observe.NewMetrics(metrics.Registry)
	m.BuildInfo.WithLabelValues(opts.Version, runtime.Version(), runtime.GOARCH, opts.Commit).Set(1)
	closeRecords, err := openRecords(ctx, &opts, m)
	if err != nil {
		return err
	}
	defer closeRecords()
	opts.views = &live.Latest{Journal: newRefused(opts.journal), Observes: opts.Settings.observes()}
	scrape := observe.NewScrape(metrics.Registry, opts.Settings.MetricsLevel)
	srv, err := serve(&opts.Settings, scrape, opts.journal, &live.Views{Latest: opts.views, Now: time.Now}, opts.leads)
	if err != nil {
		return err
	}
	defer srv.close()
	opts.debugAddress = srv.debug.address()
	opts.Log.Info("started", "version", opts.Version, "cloud_provider", opts.Settings.CloudProvider,
		"metrics", srv.metrics.address(), "health", srv.health.address(), "debug", srv.debug.address())
	if opts.Settings.uses(providerRemote) {
		if opts.link, err = connect(ctx, &opts, m); opts.link == nil {
			return err
		}
		defer opts.link.close()
	}
	objects, err := newObjects(&opts, scrape)
	if err != nil {
		return err
	}
	for {
		if !awaitCluster(ctx, &opts) {
			return nil
		}
		reportDefinitions(ctx, &opts)
		err := term(ctx, &opts, m, objects, srv)
		srv.setReady(nil)
		if ctx.Err() != nil {
			return nil
		}
		var fatal *configError
		if errors.As(err, &fatal) {
			return fatal.error
		}
		var changed *remote.ChangedError
		if errors.As(err, &changed) {
			return changed
		}
		opts.Log.Error("starting over", "error", err)
		pause(ctx, restartPause)
	}
}

// limitMemory keeps the garbage collector below nine tenths of a limit; 0 or less: there is none.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// logSettings says what of the settings has no effect, and which provider was chosen by others of them.
func (o *Options) logSettings(chosen bool) {
	for _, w := range append(o.Settings.Warnings, o.Settings.inert()...) {
		o.Log.Warn("setting ignored", "why", w)
	}
	if chosen {
		o.Log.Info("cloud provider chosen", "cloud_provider", o.Settings.CloudProvider, "why", "--cluster-name or --interruption-queue is set, and --cloud-provider is not")
	}
}

// newObjects returns what serves the metrics of objects, over all terms.
func newObjects(opts *Options, scrape *observe.Scrape) (*observe.Objects, error) {
	provider, err := detachedProvider(opts)
	if err != nil {
		return nil, err
	}
	gates, err := opts.Settings.Gates()
	if err != nil {
		return nil, err
	}
	objects := observe.NewObjects(provider.ClassKinds(), provider.Vocabulary().WellKnown, time.Now)
	objects.Conditions.Buffers = gates["CapacityBuffer"]
	if !opts.Settings.DisableClusterStateObservability {
		metrics.Registry.MustRegister(objects.Conditions)
		scrape.Add(objects, objects.Conditions)
	}
	return objects, nil
}

// setLoggers has the libraries write to the log.
func setLoggers(log *slog.Logger) {
	logger := logr.FromSlogHandler(dedupHandler(log.Handler()))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
}

// pause returns after so long, or when the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// identify gives the process the identity under which it takes the lease.
func (o *Options) identify() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the host's name, for the lease: %w", err)
	}
	o.identity = host + "_" + string(uuid.NewUUID())
	o.leads = &leadership{me: o.identity, alone: o.Settings.DisableLeaderElection}
	return nil
}

// openRecords starts what keeps decisions and what follows them. The function that it returns hands over
// what is left.
func openRecords(ctx context.Context, opts *Options, m *observe.Metrics) (func(), error) {
	var err error
	var closeTraces, closeJournal func()
	if opts.journal, closeJournal, err = openJournal(ctx, opts, m); err != nil {
		return nil, err
	}
	if opts.traces, closeTraces, err = openTraces(ctx, opts.Version, opts.Log, opts.journal); err != nil {
		closeJournal()
		return nil, err
	}
	return func() { closeTraces(); closeJournal() }, nil
}

// openJournal starts the journal that the settings ask for; nil: they ask for none. The
// function that it returns writes what still waits.
func openJournal(ctx context.Context, opts *Options, m *observe.Metrics) (*journal.Journal, func(), error) {
	s := &opts.Settings
	if s.JournalMemoryBytes == 0 && s.JournalDir == "" {
		return nil, func() {}, nil
	}
	j, err := journal.Open(journal.Options{
		MemoryBytes: s.JournalMemoryBytes, Dir: s.JournalDir, DiskBytes: s.JournalDiskBytes,
		Version: opts.Version, Now: time.Now, Log: opts.Log,
		Count: func(loop record.Loop, outcome string) {
			m.JournalDecisions.WithLabelValues(string(loop), outcome).Inc()
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--journal-dir: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the loops end first
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Run(ctx)
	}()
	return j, func() {
		cancel()
		<-done
	}, nil
}

// configError is an error that only a person can mend.
type configError struct{ error }

// awaitCluster waits until the API server answers and knows our kinds; false: ctx ended.
// It says once what it waits for, and again when that changes.
func awaitCluster(ctx context.Context, opts *Options) bool {
	wait, said := retryFirst, ""
	for {
		missing := clusterMissing(opts)
		if missing == "" {
			if said != "" {
				opts.Log.Info("cluster is ready", "server", opts.Config.Host)
			}
			return ctx.Err() == nil
		}
		if missing != said {
			opts.Log.Error("waiting for the cluster", "server", opts.Config.Host, "error", missing)
			said = missing
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		wait = min(2*wait, retryMost)
	}
}

// clusterMissing says what the cluster lacks, and what to do; empty: nothing.
func clusterMissing(opts *Options) string {
	config := rest.CopyConfig(opts.Config)
	config.Timeout = retryMost
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err.Error()
	}
	var missing []string
	for _, kind := range requiredKinds(opts) {
		list, err := d.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if err != nil && !isMissing(err) {
			return plain(err)
		}
		if !hasKind(list, kind.Kind) {
			missing = append(missing, kind.Kind+"."+kind.GroupVersion().String())
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("the cluster does not know %s; install the definitions: dovetail crds | kubectl apply --server-side --force-conflicts -f -", strings.Join(missing, ", "))
	}
	return ""
}

// isMissing reports whether the API server does not know a group or version.
func isMissing(err error) bool { return apierrors.IsNotFound(err) }

func hasKind(list *metav1.APIResourceList, kind string) bool {
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}

// requiredKinds are the kinds without which nothing can be done.
func requiredKinds(opts *Options) []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{karpenterv1.GroupVersion.WithKind("NodePool"), karpenterv1.GroupVersion.WithKind("NodeClaim")}
	return append(kinds, providerKinds(opts)...)
}

// plain returns the cause of a request that did not get through, without its URL, which
// changes and says nothing.
func plain(err error) string {
	var u *url.Error
	switch {
	case errors.As(err, &u) && u.Timeout(), errors.Is(err, context.DeadlineExceeded): // the answer, or its rest
		return fmt.Sprintf("no answer within %s", retryMost)
	case errors.As(err, &u):
		return u.Err.Error()
	}
	return err.Error()
}
