package savings

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/ec2catalog"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/decision/simulate"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// zoneID is the label that has a zone's id, which the catalog of EC2 knows and Nodes name otherwise.
const zoneID = "topology.k8s.aws/zone-id"

// API groups of node classes.
const (
	groupAWS  = "karpenter.k8s.aws"
	groupAuto = "eks.amazonaws.com" // EKS Auto Mode
)

// prices is what is known of prices, as if the zones of the cluster were those of the catalog.
type prices struct {
	ec2, kwok  []*catalog.Type
	byName     map[string]*catalog.Type // those of ec2
	vocabulary simulate.Catalog         // without types
	regions    []string                 // of the cluster's nodes, sorted
	// groups are those of Cluster API, with types as their nodes are, and groupClass is a node class that would offer them.
	groups     clusterapi.Groups
	groupClass karpenterv1.NodeClassReference
}

// pricesFor returns the prices for the nodes among the objects.
func pricesFor(objects []client.Object) (*prices, error) {
	ec2, err := simulate.CatalogNamed("ec2")
	if err != nil {
		return nil, err
	}
	kwok, err := simulate.CatalogNamed("kwok")
	if err != nil {
		return nil, err
	}
	zones, regions := map[string]bool{}, map[string]bool{}
	seen := sizes{}
	for _, o := range objects {
		if n, is := o.(*corev1.Node); is && n.Labels[corev1.LabelTopologyZone] != "" {
			seen.add(n.Labels[corev1.LabelInstanceTypeStable], n)
			zones[n.Labels[corev1.LabelTopologyZone]] = true
			if r := n.Labels[corev1.LabelTopologyRegion]; r != "" {
				regions[r] = true
			}
		}
	}
	p := &prices{kwok: kwok.Types, byName: map[string]*catalog.Type{}, regions: slices.Sorted(maps.Keys(regions))}
	p.vocabulary.Vocabulary.WellKnown = append(ec2.Vocabulary.WellKnown, kwok.Vocabulary.WellKnown...)
	p.vocabulary.Vocabulary.RestrictedDomains = append(ec2.Vocabulary.RestrictedDomains, kwok.Vocabulary.RestrictedDomains...)
	for _, t := range ec2.Types {
		t = seen.measured(inZones(t, slices.Sorted(maps.Keys(zones)), p.regions))
		p.ec2 = append(p.ec2, t)
		p.byName[t.Name] = t
	}
	return p, nil
}

// addGroups adds node groups of Cluster API; nil: there are none.
func (p *prices) addGroups(groups *clusterapi.Groups, objects []client.Object) {
	if groups == nil {
		return
	}
	p.groups = *groups
	seen, names := sizes{}, map[string]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			if g := groups.Nodes[o.Name]; g.Type != "" {
				seen.add(g.Type, o)
			}
		case *karpenterv1.NodePool:
			if class := o.Spec.Template.Spec.NodeClassRef; class != nil {
				names[class.Name] = true
			}
		}
	}
	p.groupClass = karpenterv1.NodeClassReference{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.Kind, Name: unique(names, "default")}
	p.groups.Types = nil
	for _, t := range groups.Types {
		p.groups.Types = append(p.groups.Types, seen.measured(t))
	}
}

// typeOf returns the instance type of a node that has a price.
func (p *prices) typeOf(n *corev1.Node) *catalog.Type {
	name := n.Labels[corev1.LabelInstanceTypeStable]
	if !p.groups.Nodes[n.Name].Priced {
		return p.byName[name]
	}
	return p.groups.Types[slices.IndexFunc(p.groups.Types, func(t *catalog.Type) bool { return t.Name == name })]
}

// catalog returns what node classes offer. join adds what else does; nil: nothing.
func (p *prices) catalog(join func(*simulate.Catalog)) simulate.Catalog {
	from := p.vocabulary
	from.TypesOf = p.typesOf
	if join == nil {
		return from
	}
	join(&from)
	others := from.TypesOf
	from.TypesOf = func(np *karpenterv1.NodePool) []*catalog.Type {
		if class := np.Spec.Template.Spec.NodeClassRef; class != nil && *class == p.groupClass {
			return p.groups.Types
		}
		return others(np)
	}
	return from
}

// size is what the nodes of an instance type have, and what of it pods may use: the most that any of them says.
type size struct{ capacity, allocatable quantity.List }

// sizes are the sizes of instance types by name.
type sizes map[string]*size

func (s sizes) add(name string, n *corev1.Node) {
	if s[name] == nil {
		s[name] = &size{quantity.List{}, quantity.List{}}
	}
	for into, said := range map[*quantity.List]corev1.ResourceList{&s[name].capacity: n.Status.Capacity, &s[name].allocatable: n.Status.Allocatable} {
		for resource, amount := range translate.Quantities(said) {
			(*into)[resource] = max((*into)[resource], amount)
		}
	}
}

// measured returns the type with the size that its nodes have, if there are any: the catalog only estimates it.
func (s sizes) measured(t *catalog.Type) *catalog.Type {
	is := s[t.Name]
	if is == nil || is.allocatable[quantity.CPU] == 0 || is.allocatable[quantity.Memory] == 0 {
		return t
	}
	out := *t
	out.Capacity, out.Overhead = maps.Clone(t.Capacity), quantity.List{}
	for name, amount := range is.capacity {
		out.Capacity[name] = amount
		out.Overhead[name] = max(0, amount-is.allocatable[name])
	}
	return &out
}

// inZones returns the type as if it were sold in these zones: on demand at its price, which is the same in all zones
// of a region, and spot at the mean of the spot prices.
func inZones(t *catalog.Type, zones, regions []string) *catalog.Type {
	sum, count := map[string]float64{}, map[string]int{}
	for i := range t.Offerings {
		sum[t.Offerings[i].CapacityType] += t.Offerings[i].PriceHourly
		count[t.Offerings[i].CapacityType]++
	}
	out := *t
	out.Requirements, out.Offerings = maps.Clone(t.Requirements), nil
	delete(out.Requirements, zoneID)
	out.Requirements[label.Zone] = label.In(zones...)
	if len(regions) > 0 {
		out.Requirements[corev1.LabelTopologyRegion] = label.In(regions...)
	}
	for _, zone := range zones {
		for _, kind := range slices.Sorted(maps.Keys(sum)) {
			out.Offerings = append(out.Offerings, catalog.Offering{
				Zone: zone, CapacityType: kind, PriceHourly: sum[kind] / float64(count[kind]), Priced: true, Available: true,
			})
		}
	}
	return &out
}

// typesOf returns what the node class of a NodePool offers; nil: nothing is known of its prices.
func (p *prices) typesOf(np *karpenterv1.NodePool) []*catalog.Type {
	class := np.Spec.Template.Spec.NodeClassRef
	if class == nil {
		return nil
	}
	switch class.Group {
	case groupAWS, groupAuto:
		return p.ec2
	case kwokv1alpha1.Group:
		return p.kwok
	default:
		return nil
	}
}

// of returns the price of an EC2 type by capacity type, in a zone that the cluster has.
func (p *prices) of(name, zone, kind string) (dollars float64, known bool) {
	t := p.byName[name]
	if t == nil {
		return 0, false
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == zone && o.CapacityType == kind {
			return o.PriceHourly, true
		}
	}
	return 0, false
}

// presumed says what the prices presume, given the NodePools.
func (p *prices) presumed(pools []*karpenterv1.NodePool) (lines []string) {
	uses := map[string]bool{}
	for _, np := range pools {
		uses[np.Spec.Template.Spec.NodeClassRef.Group] = true
	}
	if uses[groupAWS] || uses[groupAuto] {
		lines = append(lines,
			"Prices are the list prices of EC2 for Linux in "+ec2catalog.Region+" of "+ec2catalog.PricesOf+". Savings Plans, Reserved Instances, capacity reservations and private discounts cannot be seen.")
		for _, r := range p.regions {
			if r != ec2catalog.Region {
				lines = append(lines, "The nodes are in "+r+", where prices are others: shares mean more than dollars.")
			}
		}
		lines = append(lines,
			"A spot price is the mean over the zones of "+ec2catalog.Region+"; spot prices change by the hour.",
			"Instance types that have nodes are as large as these nodes say; of others the catalog estimates what pods may use.",
			"Each instance type is taken to be sold in each zone that has a node; of shortages nothing is known.")
	}
	if uses[groupAuto] {
		lines = append(lines, "What EKS Auto Mode costs on top of its instances is not in the prices.")
	}
	if uses[clusterapiv1alpha1.Group] {
		lines = append(lines, "Prices of Cluster API's nodes are those that somebody wrote: in annotations of MachineDeployments, in ClusterAPINodeClasses, and in --cluster-api-prices-file.")
	}
	if uses[kwokv1alpha1.Group] {
		lines = append(lines, "Prices of kwok's nodes are those of its catalog: 0.025 $/h a CPU and 0.001 $/h a GB, spot at 70 %. Nobody pays them.")
	}
	return lines
}

// capacityType returns the capacity type that the labels of a Node say, in Karpenter's words. What they do
// not say is on demand.
func capacityType(n *corev1.Node) string {
	switch text := cmp.Or(n.Labels[label.CapacityType], n.Labels["eks.amazonaws.com/capacityType"], n.Labels["node-lifecycle"], n.Labels["node.kubernetes.io/lifecycle"]); text {
	case "spot", "SPOT":
		return label.Spot
	case "on-demand", "ON_DEMAND", "normal", "":
		return label.OnDemand
	default:
		return text // reserved, CAPACITY_BLOCK: no price is known
	}
}

// CatalogFor returns what the node classes of objects' NodePools offer, with the prices that this package
// presumes, and what these rest on.
func CatalogFor(objects []client.Object) (simulate.Catalog, []string, error) {
	p, err := pricesFor(objects)
	if err != nil {
		return simulate.Catalog{}, nil, err
	}
	var pools []*karpenterv1.NodePool
	for _, o := range objects {
		if np, is := o.(*karpenterv1.NodePool); is {
			pools = append(pools, np)
		}
	}
	return p.catalog(nil), p.presumed(pools), nil
}
