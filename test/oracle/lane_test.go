package oracle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// patience bounds every wait for what must come.
	patience = 60 * time.Second
	// pollEvery is how often a lane looks at what the watches brought.
	pollEvery = 10 * time.Millisecond
	// beatEvery is how often nodes give a sign of life.
	beatEvery = 10 * time.Second
	// probes is a namespace that no scenario knows of.
	probes = "probes"
)

// world is the one control plane that all lanes share.
type world struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	pvcs   corelisters.PersistentVolumeClaimLister
	pvs    corelisters.PersistentVolumeLister
	// classes are the runtime classes that there are.
	classes []*nodev1.RuntimeClass
	runs    atomic.Int64
}

// newWorld makes what pods of all scenarios refer to, and starts the watches, which end
// with ctx.
func newWorld(ctx context.Context, config *rest.Config) (*world, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.WarningHandler = rest.NoWarnings{} // scenarios are odd on purpose
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	never := corev1.PreemptNever // or the scheduler would make room by deleting pods
	for name, value := range map[string]int32{"high": 1000, "higher": 2000, "urgent": 5000} {
		c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &never}
		if name == "urgent" {
			c.PreemptionPolicy = nil
		}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	classes := []*nodev1.RuntimeClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "h", Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("120Mi"),
		}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "general-only"}, Handler: "h", Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"example.com/pool": "general"},
			Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		}},
	}
	for _, c := range classes {
		if _, err := client.NodeV1().RuntimeClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	w := &world{
		client: client, pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
		pvcs: core.PersistentVolumeClaims().Lister(), pvs: core.PersistentVolumes().Lister(), classes: classes,
	}
	if err := w.provision(ctx, core.PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go w.beat(ctx)
	_, err = w.newNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: probes}})
	return w, err
}

// lane is where one scenario after the other is enacted.
type lane struct {
	*world
	namespaces map[string]string // the scenario's names → the lane's
	spaces     []*corev1.Namespace
}

// newLane makes the lane's namespaces.
func (w *world) newLane(ctx context.Context, i int) (*lane, error) {
	l := &lane{world: w, namespaces: map[string]string{}}
	for _, team := range []string{nsOne, nsTwo, nsSystem} {
		l.namespaces[team] = fmt.Sprintf("lane-%d-%s", i, team)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespaces[team]}}
		if team != nsSystem {
			ns.Labels = map[string]string{laneKey: l.namespaces[nsOne], teamKey: team}
		}
		made, err := w.newNamespace(ctx, ns)
		if err != nil {
			return nil, err
		}
		l.spaces = append(l.spaces, made)
	}
	return l, nil
}

// newNamespace makes a namespace and waits until pods can be made in it.
func (w *world) newNamespace(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	made, err := w.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return made, until(ctx, func() error {
		_, err := w.client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// until calls check until it returns nil. The error is the last that check returned.
func until(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so after %s: %w", patience, err)
		case <-tick.C:
		}
	}
}

// lanePods returns the pods in the lane's namespaces.
func (l *lane) lanePods() ([]*corev1.Pod, error) {
	var all []*corev1.Pod
	for _, ns := range []string{nsOne, nsTwo, nsSystem} {
		pods, err := l.pods.Pods(l.namespaces[ns]).List(labels.Everything())
		if err != nil {
			return nil, err
		}
		all = append(all, pods...)
	}
	return all, nil
}

// clear removes all pods, daemon sets and nodes of a run and waits until they are gone.
func (l *lane) clear(ctx context.Context, id string, nodes []string) error {
	for _, ns := range l.namespaces {
		now := int64(0)
		background := metav1.DeletePropagationBackground
		err := errors.Join(
			l.client.AppsV1().DaemonSets(ns).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}),
			l.client.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
			l.client.CoreV1().LimitRanges(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		)
		if err != nil {
			return fmt.Errorf("clear %s: %w", ns, err)
		}
	}
	byRun := metav1.ListOptions{LabelSelector: laneKey + "=" + id}
	if err := l.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, byRun); err != nil {
		return fmt.Errorf("clear %s: %w", id, err)
	}
	err := until(ctx, func() error {
		pods, err := l.lanePods()
		if err != nil {
			return err
		}
		for _, p := range pods {
			// A daemon pod may have been made while its set went.
			now := int64(0)
			_ = l.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		if len(pods) > 0 {
			return fmt.Errorf("%d pods are left, %s for one", len(pods), pods[0].Name)
		}
		for _, name := range nodes {
			if _, err := l.nodes.Get(name); err == nil {
				return fmt.Errorf("node %s is left", name)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.clearStorage(ctx, id); err != nil {
		return fmt.Errorf("clear storage of %s: %w", id, err)
	}
	return until(ctx, func() error { return l.left(id) })
}

// beat renews the leases of nodes, as their kubelets would: without, they are taken for
// dead after some 40 seconds, which a busy computer can take for one scenario.
func (w *world) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		nodes, err := w.nodes.List(labels.Everything())
		for _, n := range nodes {
			if err != nil || time.Since(n.CreationTimestamp.Time) < beatEvery {
				continue
			}
			leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
			now, seconds := metav1.NowMicro(), int32(40)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
			if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
				patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
				_, _ = leases.Patch(ctx, n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			}
		}
	}
}
