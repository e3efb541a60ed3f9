package cluster

import corev1 "k8s.io/api/core/v1"

// spread is how many pods there are in each domain of a rule that a pod wants kept even.
type spread struct {
	key   string
	skew  int
	in    map[string]int
	least int
}

// zoning is a rule's label and the workload whose pods have it.
type zoning struct {
	workload Key
	label    string
}

// domains are in which domain each Node counts for pods with a selector.
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

// allows reports whether one more pod on the Node keeps the domains as even as is asked.
func (x spread) allows(node *corev1.Node) bool {
	domain := node.Labels[x.key]
	return x.in != nil && domain != "" && x.in[domain]+1-max(0, x.least) <= x.skew
}
