package nodepool

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/condition"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// usage returns the capacity of a NodePool's nodes and their number. Nodes that are being
// deleted do not count, nor do NodeClaims that are not launched yet.
func usage(shares []share, unclaimed map[string]*corev1.Node) quantity.List {
	used := quantity.List{quantity.CPU: 0, quantity.Memory: 0, quantity.Pods: 0, quantity.EphemeralStorage: 0, quantity.Nodes: 0}
	count := int64(0)
	for i := range shares {
		if shares[i].isUsed {
			count++
			for _, a := range shares[i].has {
				used[a.name] = quantity.Add(used[a.name], a.n)
			}
		}
	}
	for _, node := range unclaimed {
		if node.DeletionTimestamp == nil {
			used.Add(translate.Quantities(node.Status.Capacity))
			count++
		}
	}
	used[quantity.Nodes] += count
	return used
}

// share is what one launched NodeClaim adds to the usage of its pool. It is valid for these versions
// of the claim and its Node, so that most shares need not be computed again.
type share struct {
	claim, node state
	isUsed      bool // it is not being deleted
	has         []amount
	offering
}

// state identifies one version of an object.
type state struct {
	uid     types.UID
	version string
}

func stateOf(o client.Object) state { return state{o.GetUID(), o.GetResourceVersion()} }

type amount struct {
	name string
	n    int64
}

// offering identifies a price.
type offering struct{ instanceType, zone, capacityType string }

// shares returns the shares of the launched claims, in their order, and the Nodes that belong to
// none of them, by provider ID. It takes a share from had if neither the claim nor its Node has
// changed.
func shares(claims []karpenterv1.NodeClaim, nodes []corev1.Node, had map[types.UID]share) (all []share, unclaimed map[string]*corev1.Node) {
	unclaimed = make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		if id := nodes[i].Spec.ProviderID; id != "" {
			unclaimed[id] = &nodes[i]
		}
	}
	all = make([]share, 0, len(claims))
	for i := range claims {
		claim := &claims[i]
		if claim.Status.ProviderID == "" {
			continue
		}
		node := unclaimed[claim.Status.ProviderID]
		delete(unclaimed, claim.Status.ProviderID)
		now := share{claim: stateOf(claim)}
		if node != nil {
			now.node = stateOf(node)
		}
		if before, ok := had[claim.UID]; ok && before.claim == now.claim && before.node == now.node {
			all = append(all, before)
			continue
		}
		now.isUsed = claim.DeletionTimestamp == nil && !condition.ForNodeClaim(claim).IsTrue(karpenterv1.ConditionTypeInstanceTerminating)
		now.has = capacityOf(claim, node)
		now.offering = offering{claim.Labels[label.InstanceType], claim.Labels[label.Zone], claim.Labels[label.CapacityType]}
		all = append(all, now)
	}
	return all, unclaimed
}

// capacityOf returns the capacity of a node: as its Node says, and for what it does not say (yet),
// as the claim's status says.
func capacityOf(claim *karpenterv1.NodeClaim, node *corev1.Node) (has []amount) {
	var said corev1.ResourceList
	if node != nil {
		said = node.Status.Capacity
	}
	for name, q := range said {
		if n := translate.Amount(name, q); n != 0 {
			has = append(has, amount{string(name), n})
		}
	}
	for name, q := range claim.Status.Capacity {
		if now, ok := said[name]; !ok || now.IsZero() {
			has = append(has, amount{string(name), translate.Amount(name, q)})
		}
	}
	return has
}

// cost returns the price of the nodes in dollars per hour, and whether it is known of all that are
// launched. An unknown price counts as nothing.
func cost(shares []share, known []*catalog.Type) (sum float64, allKnown bool) {
	byName := make(map[string]*catalog.Type, len(known))
	for _, t := range known {
		byName[t.Name] = t
	}
	allKnown = true
	for i := range shares {
		hourly, isKnown := price(&shares[i].offering, byName[shares[i].instanceType])
		sum, allKnown = sum+hourly, allKnown && (isKnown || shares[i].instanceType == "")
	}
	return sum, allKnown
}

// price returns what an offering of a type costs, if that is known. t is nil if the type is not.
func price(at *offering, t *catalog.Type) (hourly float64, known bool) {
	if t == nil {
		return 0, false
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.HasPrice() && o.Zone == at.zone && o.CapacityType == at.capacityType {
			hourly, known = o.PriceHourly, true
		}
	}
	return hourly, known
}
