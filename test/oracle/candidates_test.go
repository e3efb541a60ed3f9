package oracle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

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
