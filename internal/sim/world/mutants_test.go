package world

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/sim/cluster"
	"github.com/dovetail-sh/dovetail/internal/testkit"
)

var mutantSeeds = flag.Uint64("mutant-seeds", 0, "how many seeds each mutant is sought with; 0: the one that is known to find it, and a few others if it does not")

const initialized = karpenterv1.ConditionTypeInitialized

// mutants are bugs that the world must find, with the first seed that does.
var mutants = []struct {
	Mutant
	seed uint64
}{
	{Mutant{Name: "the launch token is forgotten", Launch: func(w *World, r *cloud.LaunchRequest) {
		w.Stats["mutant"]++
		r.Token += fmt.Sprint("-", w.Stats["mutant"])
	}}, 6},
	{Mutant{Name: "pods are deleted instead of evicted", Evict: func(w *World, pod *corev1.Pod) bool {
		_ = w.process.client.Delete(w.process.ctx, pod)
		return true
	}}, 1},
	{Mutant{Name: "nodes get no finalizer", Patch: node(func(_ *World, n *corev1.Node, data []byte) []byte {
		return strip(data, `"finalizers":["karpenter.sh/termination"],`)
	})}, 1},
	{Mutant{Name: "evictions are forgotten", Evict: func(*World, *corev1.Pod) bool { return true }}, 2},
	{Mutant{Name: "nodes get no owner", Patch: node(func(_ *World, n *corev1.Node, data []byte) []byte {
		if strings.Contains(string(data), `"ownerReferences"`) {
			return []byte(strings.Replace(string(data), `"ownerReferences"`, `"managedFields"`, 1))
		}
		return data
	})}, 1},
	{Mutant{Name: "nodes are never opened", Patch: node(func(_ *World, n *corev1.Node, data []byte) []byte {
		if strings.Contains(string(data), karpenterv1.NodeRegisteredLabelKey) || strings.Contains(string(data), "karpenter.sh~1registered") {
			return nil
		}
		return data
	})}, 1},
	{Mutant{Name: "nodes are never opened again", Patch: node(func(w *World, n *corev1.Node, data []byte) []byte {
		had, ok := cluster.Find[*corev1.Node](w.api, "", n.Name)
		if ok && cluster.HasTaint(had, karpenterv1.DisruptedTaintKey) && len(n.Spec.Taints) < len(had.Spec.Taints) && n.UID != "" {
			return nil
		}
		return data
	})}, 10},
	{Mutant{Name: "a replacement counts before it is ready", See: claim(func(_ *World, nc *karpenterv1.NodeClaim) {
		if nc.Annotations[replacesKey] != "" {
			set(nc, initialized)
		}
	})}, 2},
	{Mutant{Name: "limits are not known", See: pool(func(np *karpenterv1.NodePool) { np.Spec.Limits = nil })}, 4},
	{Mutant{Name: "budgets are not known", See: pool(func(np *karpenterv1.NodePool) {
		np.Spec.Disruption.Budgets = []karpenterv1.Budget{{Nodes: "100%"}}
	})}, 7},
	{Mutant{Name: "do-not-disrupt is not read", See: pod(func(_ *World, p *corev1.Pod) {
		if p.Annotations != nil {
			delete(p.Annotations, karpenterv1.DoNotDisruptAnnotationKey)
		}
	})}, 4},
	{Mutant{Name: "instances are not ended", Terminate: func(string) (bool, error) { return true, cloud.ErrNotFound }}, 1},
	{Mutant{Name: "nothing rests", Pause: func(time.Duration) time.Duration { return time.Millisecond }}, 1},
	{Mutant{Name: "the clock goes twice as fast", Now: func(t time.Time) time.Time { return t.Add(t.Sub(start)) }}, 2},
	{Mutant{Name: "healthy nodes seem to be on their way out", See: func(_ *World, o client.Object) {
		if n, ok := o.(*corev1.Node); ok && n.Name > "n-000003" {
			n.DeletionTimestamp = &metav1.Time{Time: start}
		}
	}}, 1},
	{Mutant{Name: "every drain has a deadline that has passed", See: claim(func(_ *World, nc *karpenterv1.NodeClaim) {
		if nc.DeletionTimestamp != nil {
			metav1.SetMetaDataAnnotation(&nc.ObjectMeta, karpenterv1.NodeClaimTerminationTimestampAnnotationKey, start.Format(time.RFC3339))
		}
	})}, 1},
	{Mutant{Name: "the dearest is bought", Launch: func(_ *World, r *cloud.LaunchRequest) {
		r.Choices = slices.Clone(r.Choices)
		slices.Reverse(r.Choices)
	}}, 1},
	{Mutant{Name: "conditions are lost", Patch: func(_ *World, o client.Object, data []byte, status bool) []byte {
		if _, ok := o.(*karpenterv1.NodeClaim); ok && status && strings.Contains(string(data), initialized) {
			return nil
		}
		return data
	}}, 2},
	{Mutant{Name: "nodes are not marked", Patch: node(func(_ *World, n *corev1.Node, data []byte) []byte {
		if n.DeletionTimestamp == nil && strings.Contains(string(data), karpenterv1.DisruptedTaintKey) {
			return nil
		}
		return data
	})}, 2},
	{Mutant{Name: "budgets of pods seem to allow all", See: func(_ *World, o client.Object) {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
			b.Status.DisruptionsAllowed = 100
		}
	}, Evict: func(w *World, pod *corev1.Pod) bool {
		_ = w.process.client.Delete(w.process.ctx, pod, client.GracePeriodSeconds(1))
		return true
	}}, 1},
	{Mutant{Name: "volumes seem to be detached", See: func(_ *World, o client.Object) {
		if a, ok := o.(*storagev1.VolumeAttachment); ok {
			a.Spec.NodeName = "elsewhere"
		}
	}}, 1},
	{Mutant{Name: "a leader that stood still goes on", Unfenced: true}, 1},
	{Mutant{Name: "quarantines are forgotten", Unquarantined: true}, seedHeavy},
	{Mutant{Name: "limits of static pools are not known", With: []Fault{StaticPools}, See: staticPools(func(np *karpenterv1.NodePool) { np.Spec.Limits = nil })}, 1},
	{Mutant{Name: "static pools seem to ask for one node more", With: []Fault{StaticPools}, See: staticPools(func(np *karpenterv1.NodePool) {
		np.Spec.Replicas = new(*np.Spec.Replicas + 1)
	})}, 1},
	{Mutant{Name: "static pools seem to ask for one node less", With: []Fault{StaticPools}, See: staticPools(func(np *karpenterv1.NodePool) {
		np.Spec.Replicas = new(max(0, *np.Spec.Replicas-1))
	})}, 1},
	{Mutant{Name: "static nodes never take pods", With: []Fault{StaticPools}, Patch: node(func(_ *World, n *corev1.Node, data []byte) []byte {
		if strings.HasPrefix(n.Labels[karpenterv1.NodePoolLabelKey], "static") && strings.Contains(string(data), karpenterv1.NodeInitializedLabelKey) {
			return nil
		}
		return data
	})}, 1},
	{Mutant{Name: "nodes of others seem to be of a static pool", With: []Fault{StaticPools}, See: claim(func(_ *World, nc *karpenterv1.NodeClaim) {
		if nc.Labels[karpenterv1.NodePoolLabelKey] == "pool-0" {
			nc.Labels[karpenterv1.NodePoolLabelKey] = "static-0"
		}
	})}, 1},
	{Mutant{Name: "buffers seem to ask for no room", With: []Fault{Buffers}, See: capacityBuffer(func(_ *World, cb *autoscalingv1beta1.CapacityBuffer) {
		cb.Spec.Replicas, cb.Spec.Percentage = new(int32(0)), nil
	})}, 1},
	{Mutant{Name: "a buffer asks for more whenever it has room", With: []Fault{Buffers}, See: capacityBuffer(func(w *World, cb *autoscalingv1beta1.CapacityBuffer) {
		if more := int32(w.at.Sub(w.buffers.lastLoad).Minutes()); !w.chaos.stormy {
			cb.Generation += int64(more)
			cb.Spec.Replicas = new(chunksMost + more)
		}
	})}, 11},
	{Mutant{Name: "a gang seems to need one pod", With: []Fault{Gangs}, See: podGroup(func(g *schedulingv1beta1.PodGroup) { minCount(g, 1) })}, 1},
	{Mutant{Name: "the pods of every PodGroup seem to be disrupted one by one", With: []Fault{Gangs}, See: podGroup(func(g *schedulingv1beta1.PodGroup) { g.Spec.DisruptionMode = nil })}, 7},
	{Mutant{Name: "pods that run seem to be of no gang", With: []Fault{Gangs}, See: pod(func(_ *World, p *corev1.Pod) {
		if p.Spec.NodeName != "" {
			p.Spec.SchedulingGroup = nil
		}
	})}, 1},
	{Mutant{Name: "a gang seems to need more pods than it has", With: []Fault{Gangs}, See: podGroup(func(g *schedulingv1beta1.PodGroup) { minCount(g, gangMost+1) })}, 2},
	{Mutant{Name: "reboots never take too long", With: []Fault{Reboots, NeverBoots}, See: rebooting(func(w *World, nc *karpenterv1.NodeClaim) {
		since(nc, initialized, w.at)
	})}, 16},
	{Mutant{Name: "reboots take too long at once", With: []Fault{Reboots}, See: rebooting(func(_ *World, nc *karpenterv1.NodeClaim) {
		since(nc, initialized, start)
		since(nc, karpenterv1.ConditionTypeRebooting, start)
	})}, 2},
	{Mutant{Name: "nodes never seem ready after a reboot", With: []Fault{Reboots}, See: func(w *World, o client.Object) {
		if n, ok := o.(*corev1.Node); ok && w.reboots.of(w.cloud.byNode[n.Name]) != nil {
			notReady(n)
		}
	}}, 1},
	{Mutant{Name: "the boot ID of before a reboot stays", With: []Fault{Reboots}, Patch: func(_ *World, o client.Object, data []byte, _ bool) []byte {
		if _, is := o.(*karpenterv1.NodeClaim); is && strings.Contains(string(data), karpenterv1.RebootBootIDAnnotationKey+`":null`) {
			return nil
		}
		return data
	}}, 2},
	{Mutant{Name: "the taint of a reboot stays", With: []Fault{Reboots}, Patch: node(func(w *World, n *corev1.Node, data []byte) []byte {
		had, there := cluster.Find[*corev1.Node](w.api, "", n.Name)
		if there && cluster.HasTaint(had, karpenterv1.RebootingTaintKey) && !cluster.HasTaint(n, karpenterv1.RebootingTaintKey) {
			return nil
		}
		return data
	})}, 17},
	{Mutant{Name: "nodes seem to have rebooted", With: []Fault{Reboots}, See: func(_ *World, o client.Object) {
		if n, ok := o.(*corev1.Node); ok && cluster.HasTaint(n, karpenterv1.RebootingTaintKey) {
			n.Status.NodeInfo.BootID += "-and-more"
		}
	}}, 1},
	{Mutant{Name: "pods are deleted before a reboot", With: []Fault{Reboots}, Evict: func(w *World, pod *corev1.Pod) bool {
		if !w.reboots.drains(pod.Spec.NodeName) {
			return false
		}
		_ = w.process.client.Delete(w.process.ctx, pod)
		return true
	}}, 1},
	{Mutant{Name: "do-not-disrupt is not read before a reboot", With: []Fault{Reboots}, See: pod(func(w *World, p *corev1.Pod) {
		if w.reboots.drains(p.Spec.NodeName) && p.Annotations != nil {
			delete(p.Annotations, karpenterv1.DoNotDisruptAnnotationKey)
		}
	})}, 74},
	{Mutant{Name: "rebooting nodes seem to be of no pool", With: []Fault{Reboots}, See: rebooting(func(_ *World, nc *karpenterv1.NodeClaim) {
		nc.Labels[karpenterv1.NodePoolLabelKey] = "elsewhere"
	})}, 2},
	{Mutant{Name: "no room seems to come back with a node", With: []Fault{Reboots}, See: func(_ *World, o client.Object) {
		if n, ok := o.(*corev1.Node); ok && cluster.HasTaint(n, karpenterv1.RebootingTaintKey) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/gone", Effect: corev1.TaintEffectNoSchedule})
		}
	}}, 25},
	{Mutant{Name: "reboots are not counted", With: []Fault{Reboots}, Unescalated: true}, 6},
	{Mutant{Name: "provisional IDs are taken for provider IDs", With: []Fault{LateIDs}, Answer: func(i *cloud.Instance) { i.Provisional = false }}, 1},
	{Mutant{Name: "late failures are not seen", With: []Fault{LateFailures, ShortAtFirst}, Answer: func(i *cloud.Instance) { i.Failed = nil }}, 1},
	{Mutant{Name: "late failures are of another place", With: []Fault{LateFailures, ShortAtFirst}, Failed: func(f *cloud.Failure) {
		f.Short = []catalog.Place{{Type: "another", Zone: "test-zone-a", CapacityType: "spot"}}
	}}, 3},
	{Mutant{Name: "launches that are never decided are waited for", With: []Fault{LateIDs, StuckLaunches}, Patience: func(p lifecycle.Patience) lifecycle.Patience {
		p.Launch = 24 * time.Hour
		return p
	}}, 1},
	{Mutant{Name: "sums wrap", See: pod(func(_ *World, p *corev1.Pod) { wrap(p) })}, seedAbsurd},
}

// seedHeavy and seedAbsurd have heavy pods, and absurd ones, early and as long as it takes.
const seedHeavy, seedAbsurd = 21, 22

// wrap has a pod of several containers ask for what 64 bits are left with of their sum, or for nothing.
func wrap(p *corev1.Pod) {
	if len(p.Spec.Containers) < 2 {
		return
	}
	var cpu, memory int64
	for i := range p.Spec.Containers {
		asks := p.Spec.Containers[i].Resources.Requests
		cpu, memory = cpu+1000*asks.Cpu().Value(), memory+asks.Memory().Value()
	}
	p.Spec.Containers = p.Spec.Containers[:1]
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(0, cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(max(0, memory), resource.BinarySI),
	}
}

// TestMutantsOfTenantsAreFoundByWhatTheyDo: the seeds that find them have no violation without.
func TestMutantsOfTenantsAreFoundByWhatTheyDo(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	for _, s := range []uint64{seedHeavy, seedAbsurd} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			if isFound(t, s, nil) {
				t.Error("a violation without a mutant")
			}
		})
	}
}

func node(f func(w *World, n *corev1.Node, data []byte) []byte) func(*World, client.Object, []byte, bool) []byte {
	return func(w *World, o client.Object, data []byte, status bool) []byte {
		if n, ok := o.(*corev1.Node); ok && !status {
			return f(w, n, data)
		}
		return data
	}
}

func pod(f func(w *World, p *corev1.Pod)) func(*World, client.Object) {
	return func(w *World, o client.Object) {
		if p, ok := o.(*corev1.Pod); ok {
			f(w, p)
		}
	}
}

func claim(f func(w *World, nc *karpenterv1.NodeClaim)) func(*World, client.Object) {
	return func(w *World, o client.Object) {
		if nc, ok := o.(*karpenterv1.NodeClaim); ok {
			f(w, nc)
		}
	}
}

func pool(f func(np *karpenterv1.NodePool)) func(*World, client.Object) {
	return func(_ *World, o client.Object) {
		if np, ok := o.(*karpenterv1.NodePool); ok {
			f(np)
		}
	}
}

func staticPools(f func(np *karpenterv1.NodePool)) func(*World, client.Object) {
	return pool(func(np *karpenterv1.NodePool) {
		if np.Spec.Replicas != nil {
			f(np)
		}
	})
}

func capacityBuffer(f func(w *World, cb *autoscalingv1beta1.CapacityBuffer)) func(*World, client.Object) {
	return func(w *World, o client.Object) {
		if cb, ok := o.(*autoscalingv1beta1.CapacityBuffer); ok {
			f(w, cb)
		}
	}
}

func podGroup(f func(g *schedulingv1beta1.PodGroup)) func(*World, client.Object) {
	return func(_ *World, o client.Object) {
		if g, ok := o.(*schedulingv1beta1.PodGroup); ok {
			f(g)
		}
	}
}

func rebooting(f func(w *World, nc *karpenterv1.NodeClaim)) func(*World, client.Object) {
	return claim(func(w *World, nc *karpenterv1.NodeClaim) {
		if isRebooting(nc) {
			f(w, nc)
		}
	})
}

// since has a condition of a claim last changed at a time.
func since(nc *karpenterv1.NodeClaim, condition string, at time.Time) {
	for i := range nc.Status.Conditions {
		if nc.Status.Conditions[i].Type == condition {
			nc.Status.Conditions[i].LastTransitionTime = cluster.WireTime(at)
		}
	}
}

func minCount(g *schedulingv1beta1.PodGroup, n int32) {
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}
}

func set(nc *karpenterv1.NodeClaim, condition string) {
	for i := range nc.Status.Conditions {
		if nc.Status.Conditions[i].Type == condition {
			nc.Status.Conditions[i].Status = metav1.ConditionTrue
			return
		}
	}
}

// notReady makes a Node seem not ready.
func notReady(n *corev1.Node) {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			n.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
}

func strip(data []byte, part string) []byte {
	return []byte(strings.Replace(string(data), part, "", 1))
}

// mutantSeedsFew is how many seeds a mutant is sought with beside the one that found it once:
// what a seed plays changes with the product.
const mutantSeedsFew = 12

// mutantsFew is how many of the mutants are sought under the race detector and with -short.
const mutantsFew = 3

// TestMutantsAreFound: each bug that is put in is found.
func TestMutantsAreFound(t *testing.T) {
	some := mutants
	if testkit.Raced || testing.Short() {
		some = mutants[:mutantsFew]
	}
	for i := range some {
		m := &some[i]
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			few := *mutantSeeds
			if few == 0 {
				few = mutantSeedsFew
				if isFound(t, m.seed, &m.Mutant) {
					return
				}
			}
			for s := uint64(1); s <= few; s++ {
				if isFound(t, s, &m.Mutant) {
					return
				}
			}
			t.Errorf("not found with seeds 1 to %d", few)
		})
	}
}

func isFound(t *testing.T, seed uint64, m *Mutant) bool {
	t.Helper()
	r := Run(seed, Options{Stormy: 40 * time.Minute, Calm: restIn, Nodes: 6, With: m.needs(), Mutant: m})
	if r.Violation != "" {
		t.Logf("seed %d: %s", seed, r.Violation)
	}
	return r.Violation != ""
}
