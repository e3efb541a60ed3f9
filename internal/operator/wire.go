package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpenterv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/apply"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller/candidacy"
	"github.com/dovetail-sh/dovetail/internal/controller/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/conditions"
	"github.com/dovetail-sh/dovetail/internal/controller/consistency"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/controller/garbage"
	"github.com/dovetail-sh/dovetail/internal/controller/hydration"
	"github.com/dovetail-sh/dovetail/internal/controller/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/controller/nodepool"
	"github.com/dovetail-sh/dovetail/internal/controller/nomination"
	"github.com/dovetail-sh/dovetail/internal/controller/podevents"
	"github.com/dovetail-sh/dovetail/internal/controller/podmetrics"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/controller/repair"
	"github.com/dovetail-sh/dovetail/internal/controller/termination"
	"github.com/dovetail-sh/dovetail/internal/core/pack"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/mirror"
	"github.com/dovetail-sh/dovetail/internal/observe"
	"github.com/dovetail-sh/dovetail/internal/translate"
)

// renewDeadline is how long the leader tries to renew its lease before it gives up; it is
// controller-runtime's default.
const renewDeadline = 10 * time.Second

// namespaceFile tells a pod its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// registrant is one loop or controller that adds itself to the manager.
type registrant interface {
	Register(mgr manager.Manager) error
}

// parts is what the loops of one term share.
type parts struct {
	mgr        manager.Manager
	settings   *Settings
	cloud      cloud.Provider
	vocabulary translate.Vocabulary
	mirror     *mirror.Store
	nominator  *apply.Nominator
	synced     func() bool
	events     *observe.Recorder
	metrics    *observe.Metrics
	log        *slog.Logger
	journal    *journal.Journal
}

// Scheme returns the kinds that the process reads and writes.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, karpenterv1.AddToScheme, karpenterv1alpha1.AddToScheme,
		autoscalingv1beta1.AddToScheme, kwokv1alpha1.AddToScheme, awsv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}

// term runs everything once, with an empty memory, until it fails or the context ends.
func term(ctx context.Context, opts *Options, m *observe.Metrics, objects *observe.Objects, srv *server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mgr, err := newManager(opts)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(opts.Config)
	if err != nil {
		return &configError{err}
	}
	recorder, stop := observe.NewEventRecorder(clientset, mgr.GetScheme())
	defer stop()
	p := &parts{mgr: mgr, settings: &opts.Settings, metrics: m, log: opts.Log, journal: opts.journal, events: observe.NewRecorder(recorder, time.Now)}
	if p.cloud, err = newProvider(mgr, &opts.Settings, opts.Log); err != nil {
		return &configError{err}
	}
	known := p.cloud.Vocabulary()
	p.vocabulary = translate.NewVocabulary(known.WellKnown, known.RestrictedDomains)
	if err := p.feed(ctx); err != nil {
		return err
	}
	loops := append(p.loops(), &conditions.Loop{Cache: mgr.GetCache(), Conditions: objects.Conditions, Events: p.events})
	if r, ok := p.cloud.(manager.Runnable); ok {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("add provider: %w", err)
		}
	}
	for _, loop := range loops {
		if err := loop.Register(mgr); err != nil {
			return fmt.Errorf("register %T: %w", loop, err)
		}
	}
	srv.setReady(p.ready)
	objects.Use(mgr.GetClient())
	defer objects.Use(nil)
	return mgr.Start(ctx)
}

func newManager(opts *Options) (manager.Manager, error) {
	s := &opts.Settings
	patience, skip := stopPatience, true
	// One identity for the whole process: after an outage it takes its own lease up again
	// without waiting for it to run out.
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace(s), s.LeaderElectionName,
		resourcelock.ResourceLockConfig{Identity: opts.identity}, rest.AddUserAgent(opts.Config, "leader-election"), renewDeadline)
	if err != nil {
		return nil, &configError{fmt.Errorf("leader election: %w", err)}
	}
	mgr, err := ctrl.NewManager(opts.Config, manager.Options{
		Scheme:                              Scheme(),
		Metrics:                             metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:              "0",
		LeaderElection:                      !s.DisableLeaderElection,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             &patience,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
				// The reflector tries again by itself; an expired watch is an everyday event.
				if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					opts.Log.DebugContext(ctx, "watch interrupted", "type", r.TypeDescription(), "error", err)
				}
			},
		},
		// A process that starts over has the same controllers again.
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return mgr, nil
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

// newProvider returns the cloud of --cloud-provider. A nil manager is enough to check
// the settings.
func newProvider(mgr manager.Manager, s *Settings, log *slog.Logger) (cloud.Provider, error) {
	opts := kwok.Options{InstanceTypesFile: s.InstanceTypesFilePath, Now: time.Now, Log: log}
	if mgr == nil {
		return kwok.New(nil, opts)
	}
	opts.Reader = mgr.GetAPIReader()
	return kwok.New(mgr.GetClient(), opts)
}

func providerKinds(s *Settings) []schema.GroupVersionKind {
	p, err := newProvider(nil, s, nil)
	if err != nil {
		return nil
	}
	return p.ClassKinds()
}

// feed makes the mirror and subscribes it.
func (p *parts) feed(ctx context.Context) error {
	kinds := p.cloud.ClassKinds()
	defaults, err := translate.DefaultConstraints(p.settings.SchedulerConfig)
	if err != nil {
		return &configError{err}
	}
	p.mirror = mirror.NewStore(mirror.Options{
		Vocabulary: p.vocabulary, Now: time.Now, BatchMax: p.settings.BatchMaxDuration,
		DefaultConstraints: defaults, ReservationKey: p.cloud.Vocabulary().ReservationKey,
		Manages: func(group, kind string) bool {
			return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool {
				return k.Group == group && strings.EqualFold(k.Kind, kind)
			})
		},
	})
	p.mirror.OnLanded(func(l mirror.Landing) { p.metrics.PodsLanded.WithLabelValues(string(l)).Inc() })
	if p.nominator, err = apply.NewNominator(p.mgr, p.mirror); err != nil {
		return err
	}
	if err := mirror.AddIndexes(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	synced, err := p.mirror.Feed(ctx, p.mgr.GetCache())
	p.synced = synced
	return err
}

// loops returns everything that runs.
func (p *parts) loops() []registrant {
	c := p.mgr.GetClient()
	pools := &nodepool.Controllers{
		Client: c, Cloud: p.cloud, Vocabulary: p.vocabulary, Types: p.mirror.TypesOf, Synced: p.synced, Now: time.Now, Metrics: p.metrics,
	}
	claims := &lifecycle.Controller{Client: c, Cloud: p.measured("nodeclaim.lifecycle"), Now: time.Now, Events: p.events, Metrics: p.metrics, Log: p.log, Health: pools, Short: p.mirror.Short}
	launcher := &apply.Launcher{Client: c, Mirror: p.mirror, Vocabulary: p.vocabulary}
	packing := pack.Options{
		MinValuesBestEffort: p.settings.MinValuesPolicy == "BestEffort",
		PriceCap:            p.settings.LaunchPriceCap,
		IgnorePreferences:   p.settings.PreferencePolicy == "Ignore",
	}
	loops := []registrant{
		pools, claims,
		&catalog.Loop{Cloud: p.measured("catalog"), Mirror: p.mirror, Now: time.Now, Log: p.log},
		&provisioning.Loop{
			Mirror: p.mirror, Launcher: launcher, Pack: packing,
			Events: p.events, Metrics: p.metrics, Log: p.log, Now: time.Now, Synced: p.synced,
			BatchIdle: p.settings.BatchIdleDuration, BatchMax: p.settings.BatchMaxDuration, Journal: p.journal,
		},
		&disruption.Loop{
			Mirror: p.mirror, Disrupter: &apply.Disrupter{Client: c, Launcher: launcher, Now: time.Now}, Pack: packing,
			Events: p.events, Metrics: p.metrics, Log: p.log, Now: time.Now, Synced: p.synced, Journal: p.journal,
		},
		&candidacy.Controller{Client: c, Cloud: p.cloud, Types: p.mirror.TypesOf, Now: time.Now, Log: p.log},
		&termination.Controller{Client: c, Cloud: p.measured("node.termination"), Now: time.Now, Events: p.events, Metrics: p.metrics, Log: p.log},
		&garbage.Loop{Client: c, Uncached: p.mgr.GetAPIReader(), Cloud: p.measured("nodeclaim.garbagecollection"), Now: time.Now, Metrics: p.metrics, Log: p.log, Reclaimed: p.mirror.Reclaimed},
		&consistency.Controller{Client: c, Cloud: p.cloud, Now: time.Now, Events: p.events, Log: p.log},
		&podevents.Controller{Client: c, Cloud: p.cloud, Now: time.Now},
		&hydration.Controllers{Client: c, Cloud: p.cloud},
		&podmetrics.Loop{Cache: p.mgr.GetCache(), Metrics: p.metrics, Now: time.Now, Single: p.singles()},
	}
	if policies := p.repairPolicies(); len(policies) > 0 {
		loops = append(loops, &repair.Controller{Client: c, Cloud: p.cloud, Policies: policies, Now: time.Now, Events: p.events, Metrics: p.metrics, Log: p.log})
	}
	if p.settings.NominatePods {
		nominator := &nomination.Loop{
			Mirror: p.mirror, Nominator: p.nominator, Log: p.log, Now: time.Now, Synced: p.synced,
			WaitMost: p.settings.NominateWaitMax,
		}
		claims.Opener = nominator
		// First, because others ask it as soon as they are registered.
		loops = append([]registrant{nominator}, loops...)
	}
	return loops
}

// singles returns where metrics of single objects are served; nil: they are not wanted.
func (p *parts) singles() prometheus.Registerer {
	if p.settings.DisableClusterStateObservability {
		return nil
	}
	return metrics.Registry
}

// repairPolicies returns what the provider takes for broken; none: nothing is repaired.
func (p *parts) repairPolicies() []cloud.RepairPolicy {
	gates, err := p.settings.Gates()
	repairer, able := p.cloud.(cloud.Repairer)
	if err != nil || !gates["NodeRepair"] || !able {
		return nil
	}
	return repairer.RepairPolicies()
}

// measured returns the provider with its calls counted under a controller's name.
func (p *parts) measured(controller string) cloud.Provider {
	return observe.Measured(p.cloud, controller, p.metrics, time.Now)
}

// ready tells what keeps the process from deciding.
func (p *parts) ready() error {
	if !p.synced() {
		return errors.New("the picture of the cluster is not whole yet")
	}
	return nil
}

// isMissing tells whether the API server does not know a group or version.
func isMissing(err error) bool { return apierrors.IsNotFound(err) }

func hasKind(list *metav1.APIResourceList, kind string) bool {
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}
