package oracle

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/plan"
)

// refusals makes every machine that could be bought and checks that the scheduler
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
		if kind := pod.Labels["app"] + pod.Labels["revision"]; done[kind] {
			continue
		} else {
			done[kind] = true
		}
		if err := r.ungate(ctx, ref); err != nil {
			return err
		}
		if err := r.decided(ctx, ref); err != nil {
			return err
		}
		if pod, err = r.pods.Pods(ref.Namespace).Get(ref.Name); err != nil {
			return err
		}
		if node := pod.Spec.NodeName; node != "" {
			n, err := r.world.nodes.Get(node)
			if err != nil {
				return err
			}
			if n.Annotations[openKey] != "" {
				continue // what it is was not known when the plan was made; the next plan knows
			}
			if np := r.s.pool(n.Labels[label.NodePool]); np != nil && wantsValues(np) {
				continue // it has room, but with the pod no launch from the pool would name enough types
			}
			o.fail("refused (%s), but the scheduler binds it: pod %s to %s, a %s in %s of pool %s",
				p.Refusals[i].Why, ref.Name, node, n.Labels[label.InstanceType], n.Labels[label.Zone], n.Labels[label.NodePool])
		}
	}
	return nil
}

// candidates makes one machine of every kind that could be bought, and returns the name
// of the last.
func (r *run) candidates(ctx context.Context) (last string, err error) {
	bought := &budget{s: r.s}
	bought.addNodes(r.s.Nodes)
	bought.addNodes(r.bought)
	for i := range r.s.Pools {
		np := &r.s.Pools[i]
		if wantsValues(np) {
			continue // which of them may be bought depends on the others
		}
		for _, t := range r.s.catalog() {
			for o := range t.Offerings {
				if !t.Offerings[o].Available {
					continue
				}
				for _, more := range openLabels(np) {
					n := machine(fmt.Sprintf("%s-c%d", r.id, len(r.nodes)), np, t, &t.Offerings[o], more)
					if !within(np, n) || bought.over(np, n) != "" || bought.reservedOut(catalog.Offer{Type: t, Offering: &t.Offerings[o]}) {
						continue
					}
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

// newDomain tells whether a pod is spread and a claim in flight left its zone open: when
// the plan was made, nobody knew over which zones the pod would have to be spread.
func (r *run) newDomain(p *corev1.Pod) bool {
	spread := slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey == corev1.LabelTopologyZone
	})
	if len(p.Spec.TopologySpreadConstraints) == 0 && p.Spec.SchedulerName == spreadScheduler {
		spread = len(r.services) > 0
	}
	return spread && slices.ContainsFunc(r.s.Nodes, func(n corev1.Node) bool {
		return n.Annotations[openKey] != "" && slices.ContainsFunc(r.s.claimOptions(&n), func(q karpenterv1.NodeSelectorRequirementWithMinValues) bool {
			return q.Key == corev1.LabelTopologyZone && len(q.Values) != 1
		})
	})
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

// within tells whether a machine is within the pool's requirements, by the reading of
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

// budget counts machines against the limits of their pools.
type budget struct {
	s    *scenario
	used map[string]corev1.ResourceList // by pool
	// reserved is how many machines of the plan each reservation covers.
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

// over returns the first resource of which one more machine would pass the pool's limit.
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

// counted returns what a machine counts against limits: its capacity, and itself.
func counted(n *corev1.Node) corev1.ResourceList {
	list := n.Status.Capacity.DeepCopy()
	list["nodes"] = resource.MustParse("1")
	return list
}

// reservedOut tells whether an offer is of a reservation that covers no further machine.
func (b *budget) reservedOut(o catalog.Offer) bool {
	if o.Offering.Reservation == "" {
		return false
	}
	return b.reserved[o.Offering.Reservation] >= o.Offering.Left
}

// wantsValues tells whether a pool has a minValues rule.
func wantsValues(np *karpenterv1.NodePool) bool {
	return slices.ContainsFunc(np.Spec.Template.Spec.Requirements, func(q karpenterv1.NodeSelectorRequirementWithMinValues) bool { return q.MinValues != nil })
}

// fewValues returns a key of which the offers have fewer values than the pool wants, how
// many they have and how many it wants; or any.
func fewValues(np *karpenterv1.NodePool, offers []catalog.Offer) (key string, n, least int) {
	for _, q := range np.Spec.Template.Spec.Requirements {
		if q.MinValues == nil {
			continue
		}
		seen := map[string]bool{}
		for _, o := range offers {
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
