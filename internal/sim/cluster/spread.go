package cluster

import corev1 "k8s.io/api/core/v1"

// spread is the number of pods in each domain of a topology spread constraint.
type spread struct {
	key   string
	skew  int
	in    map[string]int
	least int
}

// zoning is the topology key of a constraint, and the workload whose pods have the constraint.
type zoning struct {
	workload Key
	label    string
}

// domains are the topology domains of the Nodes that a node selector selects.
type domains struct {
	zoning
	selector map[string]string
	of       map[string]string // by the Node's name; those that are not here count in none
	nodes    map[string]int    // by domain
}

func (z *domains) put(name string, node *corev1.Node) {
	if had := z.of[name]; had != "" {
		delete(z.of, name)
		if z.nodes[had]--; z.nodes[had] == 0 {
			delete(z.nodes, had)
		}
	}
	if node == nil || !isSubset(z.selector, node.Labels) {
		return
	}
	if domain := node.Labels[z.label]; domain != "" {
		z.of[name] = domain
		z.nodes[domain]++
	}
}

// allows reports whether one more pod on the Node keeps the skew within the constraint.
func (x spread) allows(node *corev1.Node) bool {
	domain := node.Labels[x.key]
	return x.in != nil && domain != "" && x.in[domain]+1-max(0, x.least) <= x.skew
}
