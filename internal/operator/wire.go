package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/describe"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// renewDeadline is how long the leader tries to renew its lease before it gives up; it is
// controller-runtime's default.
const renewDeadline = 10 * time.Second

// term runs everything once, with an empty memory, until it fails or the context ends.
func term(ctx context.Context, opts *Options, m *observe.Metrics, objects *observe.Objects, srv *server) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts.fence = NewFence(time.Now, cancel)
	denied, noted := newDenials(time.Now, opts.Log), rest.CopyConfig(opts.Config)
	noted.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, m, time.Now} })
	noted.Wrap(denied.transport)
	mgr, err := newManager(opts, noted)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(noted)
	if err != nil {
		return &configError{err}
	}
	recorder, stop := silent(), func() {}
	if !opts.Settings.observes() {
		recorder, stop = observe.NewEventRecorder(clientset, mgr.GetScheme())
	}
	defer stop()
	provider, err := newProvider(ctx, mgr, opts, m)
	if err != nil {
		return &configError{err}
	}
	nominations, err := apply.UrgentClient(mgr)
	if err != nil {
		return err
	}
	launches, err := apply.UrgentClient(mgr)
	if err != nil {
		return err
	}
	p := &Parts{
		Manager: mgr, Settings: &opts.Settings, Cloud: provider, Nominations: nominations, Launches: launches, Now: time.Now,
		PauseIn: leaseNamespace(&opts.Settings),
		Events:  observe.NewRecorder(recorder, time.Now), Metrics: m, Conditions: objects.Conditions, Log: opts.Log, Journal: opts.journal, Views: opts.views, Traces: opts.traces,
	}
	if err := p.Assemble(ctx); err != nil {
		return err
	}
	if err := mgr.Add(&podGroups{feed: p.FeedPodGroups, log: opts.Log}); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	beside, err := newOthers(opts)
	if err != nil {
		return err
	}
	if beside != nil {
		if err := mgr.Add(beside); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
	}
	if err := mgr.Add(manager.RunnableFunc(func(context.Context) error { opts.journal.Recall(); return nil })); err != nil { // once this replica leads
		return fmt.Errorf("set up: %w", err)
	}
	opts.journal.SetLive(describe.Live(p.mirror, time.Now))
	defer opts.journal.SetLive(nil)
	srv.setReady(func() error { return cmp.Or(denied.err(), p.Ready()) })
	objects.Use(mgr.GetClient())
	defer objects.Use(nil)
	pace := paceCollector(startHeap(opts.Settings.MemoryLimit))
	defer pace.end()
	return cmp.Or(startManager(ctx, mgr, pace.endAfterCycle), context.Cause(ctx))
}

// startManager returns when the manager has ended. Before its caches are filled a manager does not
// notice that it should end; nothing else has begun by then, and it is left to itself. isFilled is called when they are.
func startManager(ctx context.Context, mgr manager.Manager, isFilled func()) error {
	filled := make(chan struct{})
	if err := mgr.Add(afterCaches(func() { isFilled(); close(filled) })); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-filled:
		return <-ended
	default:
		return nil
	}
}

// afterCaches is called when the manager's caches are filled, whoever leads.
type afterCaches func()

// Start calls it.
func (f afterCaches) Start(context.Context) error {
	f()
	return nil
}

// NeedLeaderElection reports that it does not wait for the lease.
func (afterCaches) NeedLeaderElection() bool { return false }

// newManager returns a manager whose writes are fenced.
func newManager(opts *Options, noted *rest.Config) (manager.Manager, error) {
	s := &opts.Settings
	patience, skip := stopPatience, true
	// One identity for the whole process: after an outage it takes its own lease up again
	// without waiting for it to run out.
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace(s), s.leaseName(),
		resourcelock.ResourceLockConfig{Identity: opts.identity}, rest.AddUserAgent(noted, "leader-election"), renewDeadline)
	if err != nil {
		return nil, &configError{fmt.Errorf("leader election: %w", err)}
	}
	fenced := rest.CopyConfig(noted)
	fenced.Wrap(opts.fence.transport)
	informers, err := leanInformers(fenced)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(fenced, manager.Options{
		Scheme:                              Scheme(),
		Metrics:                             metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:              "0",
		LeaderElection:                      !s.DisableLeaderElection,
		LeaderElectionResourceLockInterface: opts.fence.fence(opts.leads.observe(labelled(lock, opts.debugAddress))),
		LeaderElectionID:                    s.leaseName(), // the label of leader_election_master_status
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             &patience,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         transforms(&opts.Settings),
			NewInformer:      informers,
			DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
				// The reflector tries again by itself; an expired watch is an everyday event.
				if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
					opts.Log.DebugContext(ctx, "watch interrupted", "type", r.TypeDescription(), "error", err)
				}
			},
		},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.New(config, options)
			if err != nil {
				return nil, err
			}
			return apply.ReadYourWrites(c, time.Now), nil
		},
		// A process that starts over has the same controllers again.
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return mgr, nil
}

// transforms returns what is changed in objects before they are kept, by kind.
func transforms(s *Settings) map[client.Object]cache.ByObject {
	by := map[client.Object]cache.ByObject{&karpenterv1.NodeClaim{}: {Transform: completeClaim(s)}, &corev1.Node{}: {Transform: trimNode}}
	if gates, err := s.Gates(); err == nil && !gates["CapacityBuffer"] { // else a buffer may name them
		by[&appsv1.ReplicaSet{}], by[&appsv1.StatefulSet{}] = cache.ByObject{Transform: dropTemplate}, cache.ByObject{Transform: dropTemplate}
	}
	kind, only := onlyPause(leaseNamespace(s))
	by[kind] = only
	return by
}

// trimNode takes from a Node the images that it has, which nobody reads.
func trimNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		translate.TrimNode(node)
	}
	return o, nil
}

// dropTemplate takes from a controller of pods what nobody reads: there are many old ReplicaSets.
func dropTemplate(o any) (any, error) {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		o.ManagedFields, o.Annotations, o.Spec.Template = nil, nil, corev1.PodTemplateSpec{}
	case *appsv1.StatefulSet:
		o.ManagedFields, o.Annotations, o.Spec.Template, o.Spec.VolumeClaimTemplates = nil, nil, corev1.PodTemplateSpec{}, nil
	}
	return o, nil
}

// completeClaim returns what fills in the reference of a NodeClaim to its node class, where the claim is
// of v1beta1: its spec cannot be changed any more.
func completeClaim(s *Settings) toolscache.TransformFunc {
	kind, _ := convert.ClassKind(s.providers()[0])
	strip := cache.TransformStripManagedFields()
	return func(o any) (any, error) {
		if nc, ok := o.(*karpenterv1.NodeClaim); ok && nc.Spec.NodeClassRef != nil {
			nc.Spec.NodeClassRef = convert.Complete(nc.Spec.NodeClassRef, kind)
		}
		return strip(o)
	}
}
