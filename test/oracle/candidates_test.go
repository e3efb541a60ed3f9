package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// askedMost is how often the scheduler is asked for yet another node for a pod.
const askedMost = 30

// refusals makes every node that could be launched and checks that the scheduler
// refuses what the plan refused: of each workload one pod.
func (r *run) refusals(ctx context.Context, p *plan.Plan, o *outcome) error {
	if len(p.Refusals) == 0 {
		return nil
	}
	last, err := r.candidates(ctx)
	if err != nil {
		return err
	}
	if last != "" {
		if err := r.seen(ctx, last); err != nil {
			return err
		}
	}
	done := map[string]bool{}
	for i := range p.Refusals {
		ref := p.Refusals[i].Pod
		pod, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		if err != nil {
			return err
		}
		kind := pod.Labels["app"] + pod.Labels[revisionKeys[0]] + pod.Labels[revisionKeys[1]]
		if done[kind] {
			continue
		}
		done[kind] = true
		n, err := r.wronglyRefused(ctx, ref)
		if err != nil {
			return err
		}
		if n != nil {
			o.fail("refused (%s), but the scheduler binds it: pod %s to %s, a %s in %s of pool %s",
				p.Refusals[i].Why, ref.Name, n.Name, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.NodePool])
		}
	}
	return nil
}

// wronglyRefused returns a node that the scheduler finds for a pod; nil if there is none.
// One that a pool with minValues would have to launch is none by itself: there must be enough
// of them that differ in nothing but the values that the pool counts.
func (r *run) wronglyRefused(ctx context.Context, ref cluster.PodRef) (*corev1.Node, error) {
	alike := map[string][]*corev1.Node{}
	var shut []string
	defer func() {
		for _, name := range shut {
			_ = r.shut(ctx, name, false)
		}
	}()
	for try := 1; try <= askedMost; try++ {
		err := r.ungate(ctx, ref)
		if err == nil {
			err = r.decided(ctx, ref)
		}
		if err != nil {
			return nil, err
		}
		pod, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		if err != nil || pod.Spec.NodeName == "" {
			return nil, err
		}
		n, err := r.world.nodes.Get(pod.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		np := r.s.pool(n.Labels[label.NodePool])
		if n.Annotations[candidateKey] == "" || !wantsValues(np) {
			return n, nil
		}
		rest := fmt.Sprint(np.Name, n.Labels[label.Zone], n.Labels[label.CapacityType], n.Labels["example.com/rack"])
		if alike[rest] = append(alike[rest], n); enoughValues(np, alike[rest]) {
			return n, nil
		}
		if !slices.Contains(shut, n.Name) { // else the scheduler has not seen it, or the pod does not mind
			shut = append(shut, n.Name)
			if err := r.shut(ctx, n.Name, true); err != nil {
				return nil, err
			}
		}
		if ref, err = r.anew(ctx, pod, try); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// shut closes a node to pods, or opens it again.
func (r *run) shut(ctx context.Context, name string, closed bool) error {
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, closed)
	_, err := r.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("close node %s: %w", name, err)
	}
	return nil
}

// anew deletes a pod and makes another like it, behind the gate.
func (r *run) anew(ctx context.Context, p *corev1.Pod, try int) (cluster.PodRef, error) {
	i := slices.IndexFunc(r.s.Pending, func(q corev1.Pod) bool {
		return q.Namespace == p.Namespace && (q.Name == p.Name || strings.HasPrefix(p.Name, q.Name+"-y"))
	})
	next := r.s.Pending[i].DeepCopy()
	next.Name = fmt.Sprintf("%s-y%d", next.Name, try)
	now := int64(0)
	if err := r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return cluster.PodRef{}, fmt.Errorf("make %s anew: %w", p.Name, err)
	}
	if _, err := r.client.CoreV1().Pods(next.Namespace).Create(ctx, next, metav1.CreateOptions{}); err != nil {
		return cluster.PodRef{}, fmt.Errorf("make %s anew: %w", p.Name, err)
	}
	ref := cluster.PodRef{Namespace: next.Namespace, Name: next.Name}
	return ref, until(ctx, func() error {
		_, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		return err
	})
}

// candidates makes one node of every kind that could be launched, and returns the name
// of the last.
func (r *run) candidates(ctx context.Context) (last string, err error) {
	launched := &budget{s: r.s}
	launched.addNodes(r.s.Nodes)
	launched.addNodes(r.launched)
	for i := range r.s.Pools {
		np := &r.s.Pools[i]
		for _, t := range r.s.catalog() {
			for o := range t.Offerings {
				if !t.Offerings[o].Available {
					continue
				}
				for _, more := range openLabels(np) {
					n := launchedNode(fmt.Sprintf("%s-c%d", r.id, len(r.nodes)), np, t, &t.Offerings[o], more)
					if !within(np, n) || launched.over(np, n) != "" || launched.reservedOut(catalog.Choice{Type: t, Offering: &t.Offerings[o]}) {
						continue
					}
					n.Annotations = with(n.Annotations, candidateKey, "true")
					if err := r.join(ctx, n); err != nil {
						return "", err
					}
					last = n.Name
				}
			}
		}
	}
	return last, r.settled(ctx)
}

// seen waits until the scheduler knows a node, and with it all made before: by a pod
// that asks for nothing else, in a namespace that no rule of a scenario looks into.
func (r *run) seen(ctx context.Context, node string) error {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: probes, Name: r.id},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:   []corev1.Container{{Name: "probe", Image: "none"}},
		},
	}
	if _, err := r.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	ref := cluster.PodRef{Namespace: p.Namespace, Name: p.Name}
	if err := until(ctx, func() error {
		_, err := r.pods.Pods(ref.Namespace).Get(ref.Name)
		return err
	}); err != nil {
		return err
	}
	if err := r.decided(ctx, ref); err != nil {
		return err
	}
	now := int64(0)
	return r.client.CoreV1().Pods(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// openLabels returns the choices of labels that a pool's requirements leave to its pods:
// every value of the one custom label that scenarios use, or none.
func openLabels(np *karpenterv1.NodePool) []map[string]string {
	for _, q := range np.Spec.Template.Spec.Requirements {
		if q.Key == "example.com/rack" {
			var choices []map[string]string
			for _, v := range q.Values {
				choices = append(choices, map[string]string{q.Key: v})
			}
			return choices
		}
	}
	return []map[string]string{nil}
}

// within reports whether a node is within the pool's requirements, by the reading of
// Kubernetes' own library.
func within(np *karpenterv1.NodePool, n *corev1.Node) bool {
	var term corev1.NodeSelectorTerm
	for _, q := range np.Spec.Template.Spec.Requirements {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: q.Key, Operator: q.Operator, Values: q.Values})
	}
	if len(term.MatchExpressions) == 0 {
		return true
	}
	s, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}})
	return err == nil && s.Match(n)
}

// budget counts nodes against the limits of their pools.
type budget struct {
	s    *scenario
	used map[string]corev1.ResourceList // by pool
	// reserved is how many nodes of the plan each reservation covers.
	reserved map[string]int
}

func (b *budget) addNodes(nodes []corev1.Node) {
	for i := range nodes {
		b.add(&nodes[i])
	}
}

func (b *budget) add(n *corev1.Node) {
	if b.used == nil {
		b.used = map[string]corev1.ResourceList{}
	}
	if id := n.Labels[reservationKey]; id != "" {
		if b.reserved == nil {
			b.reserved = map[string]int{}
		}
		b.reserved[id]++
	}
	pool := n.Labels[karpenterv1.NodePoolLabelKey]
	if b.used[pool] == nil {
		b.used[pool] = corev1.ResourceList{}
	}
	for name, amount := range counted(n) {
		sum := b.used[pool][name]
		sum.Add(amount)
		b.used[pool][name] = sum
	}
}

// over returns the first resource of which one more node would pass the pool's limit.
func (b *budget) over(np *karpenterv1.NodePool, n *corev1.Node) corev1.ResourceName {
	for name, limit := range np.Spec.Limits {
		sum := b.used[np.Name][name]
		sum.Add(counted(n)[name])
		if sum.Cmp(limit) > 0 {
			return name
		}
	}
	return ""
}

// counted returns what a node counts against limits: its capacity, and itself.
func counted(n *corev1.Node) corev1.ResourceList {
	list := n.Status.Capacity.DeepCopy()
	list["nodes"] = resource.MustParse("1")
	return list
}

// reservedOut reports whether an offer is of a reservation that covers no further node.
func (b *budget) reservedOut(o catalog.Choice) bool {
	if o.Offering.Reservation == "" {
		return false
	}
	return b.reserved[o.Offering.Reservation] >= o.Offering.Left
}

// wantsValues reports whether a pool has a minValues rule.
func wantsValues(np *karpenterv1.NodePool) bool {
	return slices.ContainsFunc(np.Spec.Template.Spec.Requirements, func(q karpenterv1.NodeSelectorRequirementWithMinValues) bool { return q.MinValues != nil })
}

// enoughValues reports whether the nodes have the values that the pool wants to be named.
func enoughValues(np *karpenterv1.NodePool, nodes []*corev1.Node) bool {
	for _, q := range np.Spec.Template.Spec.Requirements {
		seen := map[string]bool{}
		for _, n := range nodes {
			seen[n.Labels[q.Key]] = true
		}
		if q.MinValues != nil && len(seen) < *q.MinValues {
			return false
		}
	}
	return true
}

// fewValues returns a key of which the offers have fewer values than the pool wants, how
// many they have and how many it wants; or any.
func fewValues(np *karpenterv1.NodePool, choices []catalog.Choice) (key string, n, least int) {
	for _, q := range np.Spec.Template.Spec.Requirements {
		if q.MinValues == nil {
			continue
		}
		seen := map[string]bool{}
		for _, o := range choices {
			for _, v := range o.Type.Requirements[q.Key].Values() {
				seen[v] = true
			}
		}
		if key, n, least = q.Key, len(seen), *q.MinValues; n < least {
			return key, n, least
		}
	}
	return key, n, least
}
