package disaster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
)

// kube is the simulated cluster on the clock of the synctest bubble, and its instances as the account
// reports them. Its goroutines take turns by the lock.
type kube struct {
	mu        sync.Mutex
	ctx       context.Context // after which nothing happens any more
	cluster   *cluster.Cluster
	api       *cluster.API                     // the cluster's
	workloads map[string]*cluster.Workload     // by name
	instances map[string]cluster.InstanceState // by Node
}

func newKube(ctx context.Context) *kube {
	k := &kube{ctx: ctx, workloads: map[string]*cluster.Workload{}, instances: map[string]cluster.InstanceState{}}
	rng := rand.New(rand.NewPCG(1, 3))
	k.cluster = cluster.New(&cluster.Config{Clock: k, Instances: k, Between: func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(max(1, most-least))))
	}})
	k.api = k.cluster.API
	k.locked(k.cluster.Start)
	return k
}

// locked does something that nothing else of the cluster overlaps.
func (k *kube) locked(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do()
}

// Now, After and State are the cluster's Clock and Instances.
func (k *kube) Now() time.Time { return time.Now() }

func (k *kube) After(pause time.Duration, do func()) {
	time.AfterFunc(pause, func() {
		if k.ctx.Err() == nil {
			k.locked(do)
		}
	})
}

func (k *kube) State(node string) (cluster.InstanceState, bool) {
	i, ok := k.instances[node]
	return i, ok
}

// Join and Leave are what the account's instances do.
func (k *kube) Join(node *corev1.Node) {
	k.locked(func() {
		old, ok := cluster.Find[*corev1.Node](k.api, "", node.Name)
		if ok && old.Spec.ProviderID == node.Spec.ProviderID { // it was rebooted
			cluster.Edit(k.api, old, func(n *corev1.Node) { n.Status.NodeInfo.BootID = node.Status.NodeInfo.BootID })
			return
		}
		if ok { // of an instance that had the address before
			k.api.Drop("Node", old)
			k.cluster.Kubelets.RemoveOrphans()
		}
		k.instances[node.Name] = cluster.InstanceState{Up: true}
		must(k.api.Create(node.DeepCopy()))
	})
}

func (k *kube) Leave(name string) {
	k.locked(func() {
		node, ok := cluster.Find[*corev1.Node](k.api, "", name)
		if !ok {
			return
		}
		k.instances[name] = cluster.InstanceState{SilentSince: time.Now(), Ended: true}
		k.api.Delete(node, 0)
	})
}

// scale sets how many pods a workload has, which is begun if it is new, with a PodDisruptionBudget.
func (k *kube) scale(w *cluster.Workload, replicas int) {
	k.locked(func() {
		had := k.workloads[w.Name]
		if had == nil {
			had, w.Replicas = w, replicas
			k.workloads[w.Name] = w
			k.cluster.Workloads.Add(w, &policyv1.PodDisruptionBudgetSpec{MaxUnavailable: cluster.Percent(25)})
		}
		had.Replicas = replicas
		k.cluster.Workloads.Wake(had)
	})
}

// edit changes an object of a name.
func edit[T client.Object](k *kube, name string, change func(T)) {
	k.locked(func() {
		if o, ok := cluster.Find[T](k.api, "", name); ok {
			cluster.Edit(k.api, o, change)
		}
	})
}

func must(err error) {
	if err != nil {
		panic(err) // of what the test itself makes, and names are unique
	}
}
