package nomination_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller/catalog"
	"github.com/dovetail-sh/dovetail/internal/controller/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/controller/nodepool"
	"github.com/dovetail-sh/dovetail/internal/controller/nomination"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/kube/apply"
	"github.com/dovetail-sh/dovetail/internal/kube/mirror"
	"github.com/dovetail-sh/dovetail/internal/kube/observe"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

const (
	patience = 4 * time.Minute
	// The settings are those the product has by default.
	qps, burst = 200, 300
	waitMost   = 10 * time.Second
)

// world is a real control plane with the loops of a scale-up at work in it.
type world struct {
	client.Client
	mirror *mirror.Store
	// there counts the pods that were bound to the node that they were planned for.
	there atomic.Int64
}

// newWorld starts it, with one pool of nodes of 4 cpu, and returns when that is ready.
func newWorld(t testing.TB, nominate bool) *world {
	t.Helper()
	devcluster := testkit.StartCluster(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpenterv1.AddToScheme, kwokv1alpha1.AddToScheme} {
		must(t, add(scheme))
	}
	_, err := envtest.InstallCRDs(devcluster.Config, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd"}, ErrorIfPathMissing: true})
	must(t, err)
	direct, err := client.New(devcluster.Config, client.Options{Scheme: scheme})
	must(t, err)
	limited := rest.CopyConfig(devcluster.Config)
	limited.QPS, limited.Burst = qps, burst
	skip := true
	mgr, err := ctrl.NewManager(limited, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	must(t, err)
	w := &world{Client: direct}
	w.start(t, mgr, nominate)
	must(t, direct.Create(t.Context(), &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	must(t, w.fullNode(t))
	np := pool()
	must(t, direct.Create(t.Context(), np))
	testkit.Eventually(t, patience, func() error { return w.planned(np) })
	testkit.AwaitDefinition(t, direct, &karpenterv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: karpenterv1.NodeClaimSpec{
			NodeClassRef: np.Spec.Template.Spec.NodeClassRef, Requirements: []karpenterv1.NodeSelectorRequirementWithMinValues{},
		},
	})
	return w
}

// start runs the loops, wired as the operator does, until the test ends.
func (w *world) start(t testing.TB, mgr manager.Manager, nominate bool) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
	must(t, err)
	recorder, stop := observe.NewEventRecorder(clientset, mgr.GetScheme())
	t.Cleanup(stop)
	events, metrics := observe.NewRecorder(recorder, time.Now), observe.NewMetrics(prometheus.NewRegistry())
	log := slog.New(slog.DiscardHandler)
	c := mgr.GetClient()
	cloud, err := kwok.New(c, kwok.Options{Reader: mgr.GetAPIReader(), Now: time.Now, Log: log})
	must(t, err)
	must(t, mgr.Add(cloud))
	known := cloud.Vocabulary()
	vocabulary := translate.NewVocabulary(known.WellKnown, known.RestrictedDomains)
	w.mirror = mirror.NewStore(mirror.Options{
		Vocabulary: vocabulary, Now: time.Now, BatchMax: 10 * time.Second, Owners: true,
		Manages: func(group, kind string) bool {
			return group == kwokv1alpha1.Group && strings.EqualFold(kind, "KWOKNodeClass")
		},
	})
	w.mirror.OnOutcome(func(l mirror.Outcome) {
		if l == mirror.AsPlanned {
			w.there.Add(1)
		}
	})
	must(t, mirror.AddIndexes(t.Context(), mgr.GetFieldIndexer()))
	ctx, cancel := context.WithCancel(context.Background())
	synced, err := w.mirror.Feed(ctx, mgr.GetCache())
	must(t, err)
	claims := &lifecycle.Controller{Client: c, Launches: c, Cloud: cloud, Now: time.Now, Events: events, Metrics: metrics, Log: log}
	if nominate {
		writer, err := apply.UrgentClient(mgr)
		must(t, err)
		nominator := &nomination.Loop{
			Mirror: w.mirror, Nominator: &apply.Nominator{Client: writer, Mirror: w.mirror}, Log: log, Now: time.Now, Synced: synced, WaitMost: waitMost,
		}
		must(t, nominator.Register(mgr))
		claims.Opener = nominator
	}
	for _, loop := range []interface{ Register(manager.Manager) error }{
		claims,
		&nodepool.Controllers{Client: c, Cloud: cloud, Vocabulary: vocabulary, Types: w.mirror.Pools().TypesOf, Synced: synced, Now: time.Now, Metrics: metrics, Log: log},
		&catalog.Loop{Cloud: cloud, Mirror: w.mirror, Now: time.Now, Log: log},
		&provisioning.Loop{
			Mirror: w.mirror, Launcher: &apply.Launcher{Client: c, Mirror: w.mirror, Vocabulary: vocabulary, PoolLaunches: &apply.PoolLaunches{}},
			Events: events, Metrics: metrics, Log: log, Now: time.Now, Synced: synced,
			BatchIdle: time.Second, BatchMax: 10 * time.Second, Quarantine: &apply.Quarantine{},
			Early: provisioning.NewEarly(w.mirror),
		},
	} {
		must(t, loop.Register(mgr))
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
}

// fullNode makes a Node that is nobody's and has no room. In a cluster without any node
// kube-scheduler looks at pods by time only; what it does otherwise is what counts.
func (w *world) fullNode(t testing.TB) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	if err := w.Create(t.Context(), node); err != nil {
		return err
	}
	made := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourcePods: resource.MustParse("100")}
	node.Status.Capacity = node.Status.Allocatable
	// A patch, because others write to the new node at the same time.
	return w.Status().Patch(t.Context(), node, client.MergeFrom(made))
}

func pool() *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	np.Spec.Template.Spec.NodeClassRef = &karpenterv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: "KWOKNodeClass", Name: "default"}
	np.Spec.Template.Spec.Requirements = []karpenterv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
		{Key: "karpenter.kwok.sh/instance-cpu", Operator: corev1.NodeSelectorOpIn, Values: []string{"4"}},
	}
	return np
}

// planned returns nil once plans can use the pool.
func (w *world) planned(np *karpenterv1.NodePool) error {
	snap := w.mirror.Snapshot()
	p, ok := snap.PoolByName(np.Name)
	switch {
	case !ok:
		return errNotReady("it is not there")
	case p.Unready != "":
		return errNotReady(p.Unready)
	default:
		return nil
	}
}

type errNotReady string

func (e errNotReady) Error() string { return "the pool is not ready: " + string(e) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
