package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	karpenterv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/dovetail-sh/dovetail/internal/decision/scenario"
)

// world is a running cluster as Karpenter sees it, to which its commands are applied at
// once: replacements are ready and pods are where its simulation put them.
type world struct {
	*converted
	kube        *kube
	cloud       cloud
	cluster     *state.Cluster
	queue       *disruption.Queue
	recorder    events.Recorder
	clock       clock.Clock
	methods     []disruption.Method
	pods        map[string]*corev1.Pod // by name
	price       map[string]float64     // by node
	launched    int
	provisioner *provisioning.Provisioner
	// running counts the pods of each group that have a node.
	running []int
}

// accept is a validator that finds every command still right, without the wait of 15 s.
type accept struct{}

// Validate returns the command.
func (accept) Validate(_ context.Context, cmd disruption.Command, _ time.Duration) (disruption.Command, error) {
	return cmd, nil
}

func newWorld(ctx context.Context, c *converted) (*world, error) {
	w := &world{
		converted: c, clock: clock.RealClock{}, cloud: cloud{types: c.types}, recorder: events.NewRecorder(&record.FakeRecorder{}),
		kube: &kube{pools: c.pools, budgets: c.budgets(), nodes: map[string]*corev1.Node{}, pods: map[string][]*corev1.Pod{}},
		pods: map[string]*corev1.Pod{}, price: map[string]float64{},
	}
	for _, p := range c.pools {
		p.StatusConditions().SetTrue(karpenterv1.ConditionTypeValidationSucceeded)
		p.StatusConditions().SetTrue(karpenterv1.ConditionTypeNodeClassReady)
	}
	for _, d := range c.daemons {
		ds := appsv1.DaemonSet{ObjectMeta: d.ObjectMeta}
		ds.Spec.Template.Spec = d.Spec
		w.kube.daemons = append(w.kube.daemons, ds)
	}
	w.cluster = state.NewCluster(w.clock, w.kube, w.cloud)
	w.provisioner = provisioning.NewProvisioner(w.kube, w.recorder, w.cloud, w.cluster, w.clock, nil, nil)
	w.queue = disruption.NewQueue(w.kube, w.recorder, w.cluster, w.clock, w.provisioner)
	base := disruption.MakeConsolidation(w.clock, w.cluster, w.kube, w.provisioner, w.cloud, w.recorder, w.queue)
	option := disruption.WithValidator(accept{})
	w.methods = []disruption.Method{disruption.NewEmptiness(base, option), disruption.NewMultiNodeConsolidation(base, option), disruption.NewSingleNodeConsolidation(base, option)}
	byName := map[string]*cloudprovider.InstanceType{}
	for _, types := range c.types {
		for _, t := range types {
			byName[t.Name] = t
		}
	}
	w.running = make([]int, len(c.scenario.PodGroups))
	for _, n := range c.scenario.Nodes {
		for _, share := range n.Pods {
			for range share.Count() {
				g := share.Group()
				w.bind(g, w.running[g], n.Name)
				w.running[g]++
			}
		}
		if err := w.addNode(ctx, scenario.NamedNode{Name: n.Name, Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType, Pool: n.Pool}, byName[n.Type]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// pending returns the pods that have no node, new ones with each call.
func (w *world) pending() []*corev1.Pod {
	var out []*corev1.Pod
	for g := range w.scenario.PodGroups {
		for i := range w.scenario.PodGroups[g].N {
			out = append(out, pod(&w.scenario.PodGroups[g], g, w.running[g]+i))
		}
	}
	return out
}

// bind adds a running pod.
func (w *world) bind(g, i int, node string) {
	p := pod(&w.scenario.PodGroups[g], g, i)
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	w.pods[p.Name] = p
	w.kube.pods[node] = append(w.kube.pods[node], p)
}

// addNode adds a node that is ready and may be consolidated.
func (w *world) addNode(ctx context.Context, n scenario.NamedNode, t *cloudprovider.InstanceType) error {
	if t == nil {
		return fmt.Errorf("node %s: there is no such type", n.Name)
	}
	price, ok := t.OfferingPrice(n.Zone, n.CapacityType)
	if !ok {
		return fmt.Errorf("node %s: there is no such offering", n.Name)
	}
	w.price[n.Name] = price
	meta := metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: n.Zone, corev1.LabelInstanceTypeStable: t.Name,
		karpenterv1.CapacityTypeLabelKey: n.CapacityType, karpenterv1.NodePoolLabelKey: n.Pool,
		karpenterv1.NodeRegisteredLabelKey: "true", karpenterv1.NodeInitializedLabelKey: "true",
	}}
	for key, r := range t.Requirements {
		if _, ok := meta.Labels[key]; !ok && r.Len() > 0 {
			meta.Labels[key] = r.Any()
		}
	}
	claim := &karpenterv1.NodeClaim{ObjectMeta: *meta.DeepCopy()}
	claim.Status.ProviderID, claim.Status.NodeName = "bench:///"+n.Name, n.Name
	claim.Status.Capacity, claim.Status.Allocatable = t.Capacity, t.Allocatable()
	for _, condition := range []string{karpenterv1.ConditionTypeLaunched, karpenterv1.ConditionTypeRegistered, karpenterv1.ConditionTypeInitialized, karpenterv1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(condition)
	}
	node := &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}}
	node.Status.Capacity, node.Status.Allocatable = t.Capacity.DeepCopy(), t.Allocatable()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.kube.nodes[n.Name] = node
	w.cluster.UpdateNodeClaim(claim)
	return w.cluster.UpdateNode(ctx, node)
}

// apply carries a command out and returns it as a step.
func (w *world) apply(ctx context.Context, cmd *disruption.Command) (scenario.Step, error) {
	var step scenario.Step
	moved := map[scenario.Move]int{}
	move := func(pods []*corev1.Pod, to string) error {
		for _, seen := range pods {
			p := w.pods[seen.Name]
			g, err := strconv.Atoi(p.Annotations[groupLabel])
			if err != nil {
				return fmt.Errorf("pod %s has no group: %w", p.Name, err)
			}
			moved[scenario.Move{Group: g, From: p.Spec.NodeName, To: to}]++
			w.kube.move(p, to)
			if err := w.cluster.UpdatePod(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range cmd.Replacements {
		t, offering := cheapest(r.NodeClaim)
		if offering == nil {
			return step, fmt.Errorf("no offering is left for a replacement")
		}
		w.launched++
		n := scenario.NamedNode{Name: fmt.Sprintf("new-%d", w.launched), Type: t.Name, Zone: offering.Zone(), CapacityType: offering.CapacityType(), Pool: r.NodePoolName}
		step.Launch = append(step.Launch, n)
		if err := w.addNode(ctx, n, t); err != nil {
			return step, err
		}
		if err := move(r.Pods, n.Name); err != nil {
			return step, err
		}
	}
	for _, n := range cmd.Results.ExistingNodes {
		if err := move(n.Pods, n.Name()); err != nil {
			return step, err
		}
	}
	for m, n := range moved {
		m.Count = n
		step.Moves = append(step.Moves, m)
	}
	for _, c := range cmd.Candidates {
		name := c.Name()
		step.Delete = append(step.Delete, name)
		delete(w.kube.nodes, name)
		delete(w.price, name)
		w.cluster.DeleteNodeClaim(c.NodeClaim.Name)
		w.cluster.DeleteNode(name)
	}
	return step, nil
}
