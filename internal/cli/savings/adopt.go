package savings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cli/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// categories are those of general purpose, which proposed NodePools allow besides those that the nodes have.
var categories = []string{"c", "m", "r"} //nolint:gochecknoglobals // a constant list

const (
	categoryKey   = groupAWS + "/instance-category"
	generationKey = groupAWS + "/instance-generation"
	// generationAbove is the generation that proposed NodePools begin above, as in Karpenter's examples.
	generationAbove = 2
)

// Terms are what a reader may presume otherwise.
type Terms struct {
	// Spot lets proposed NodePools launch spot, too. OwnTypes lets them launch only the instance types that their
	// nodes have.
	Spot, OwnTypes bool
}

// adoption is what nodes that are of no NodePool become.
type adoption struct {
	// pools are the proposed NodePools.
	pools []*karpenterv1.NodePool
	// claims are the NodeClaims that the nodes would have.
	claims []*karpenterv1.NodeClaim
	// alone says of the other nodes why they are left alone, by name.
	alone map[string]string
}

// adopt gives the nodes that have no NodeClaim the NodePools and NodeClaims that they would have under Dovetail, and
// their labels. It changes these Nodes.
func adopt(objects []client.Object, p *prices, terms Terms) *adoption {
	a := &adoption{alone: map[string]string{}}
	claimed, names := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *karpenterv1.NodeClaim:
			claimed[o.Status.ProviderID] = true
		case *karpenterv1.NodePool:
			names[o.Name] = true
		}
	}
	selected := selectedKeys(objects)
	groups := map[string]*group{}
	for _, o := range objects {
		n, is := o.(*corev1.Node)
		if !is || n.Spec.ProviderID != "" && claimed[n.Spec.ProviderID] {
			continue
		}
		if why := p.unpriced(n); why != "" {
			a.alone[n.Name] = why
			continue
		}
		if of := p.groups.Nodes[n.Name]; of.Priced { // as Dovetail would label it
			for k, v := range map[string]string{corev1.LabelInstanceTypeStable: of.Type, corev1.LabelTopologyZone: of.Zone, label.CapacityType: of.CapacityType} {
				if v != "" {
					metav1.SetMetaDataLabel(&n.ObjectMeta, k, v)
				}
			}
		}
		g := groupFor(n, selected, p)
		if had := groups[g.key()]; had != nil {
			g = had
		}
		groups[g.key()] = g
		g.add(n, p)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		class := karpenterv1.NodeClassReference{Group: groupAWS, Kind: "EC2NodeClass", Name: "default"}
		if g.ofClusterAPI {
			class = p.groupClass
		}
		np := g.pool(unique(names, g.name()), class, terms)
		if g.ofClusterAPI && g.special == "" && !terms.OwnTypes {
			g.allow(np, p, slices.Collect(maps.Values(groups)))
		}
		a.pools = append(a.pools, np)
		for _, n := range g.nodes {
			a.claims = append(a.claims, claim(n, np))
		}
	}
	slices.SortFunc(a.pools, func(x, y *karpenterv1.NodePool) int { return cmp.Compare(x.Name, y.Name) })
	return a
}

// unpriced says why a node without a NodeClaim is left alone; empty: it has a price.
func (p *prices) unpriced(n *corev1.Node) string {
	name, zone := n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone]
	kind := capacityType(n)
	of, isReplica := p.groups.Nodes[n.Name]
	_, isControl := n.Labels["node-role.kubernetes.io/control-plane"]
	cloud, _, hasID := strings.Cut(n.Spec.ProviderID, "://")
	elsewhere := ""
	if hasID && len(p.groups.Nodes) == 0 && !slices.Contains([]string{"aws", "gce", "azure", "kwok"}, cloud) {
		elsewhere = "; that of a Machine of Cluster API is found with --cluster-api-kubeconfig"
	}
	switch _, known := p.of(name, zone, kind); {
	case isControl:
		return "it is of the control plane"
	case n.DeletionTimestamp != nil:
		return "it is being deleted"
	case n.Labels["eks.amazonaws.com/compute-type"] == "fargate":
		return "it is of Fargate, which is paid for by the pod"
	case n.Labels[corev1.LabelOSStable] == "windows":
		return "it runs Windows, and only prices for Linux are known"
	case of.Priced, known && !(hasID && (cloud == "gce" || cloud == "azure")):
		return ""
	case isReplica && of.Type == "":
		return "its MachineDeployment " + of.Deployment + " does not say what can be launched from it (the end of the report says why)"
	case isReplica:
		return "no price is known of nodes of MachineDeployment " + of.Deployment + ": set its annotation cluster.x-k8s.io/machine-current-price, or give --cluster-api-prices-file with a price for " + of.Type
	case name == "":
		return "it has no label " + corev1.LabelInstanceTypeStable + ", so its price is not known" + elsewhere
	case zone == "":
		return "it has no label " + corev1.LabelTopologyZone + ", so its price is not known" + elsewhere
	case hasID && (cloud == "gce" || cloud == "azure"), p.byName[name] == nil:
		return "no price is known for instance type " + name + " (only those of EC2 are)" + elsewhere
	case !known:
		return fmt.Sprintf("no price is known for instance type %s as %s", name, kind)
	}
	return ""
}

// selectedKeys returns the label keys by which pods choose nodes.
func selectedKeys(objects []client.Object) map[string]bool {
	keys := map[string]bool{}
	terms := func(list []corev1.NodeSelectorTerm) {
		for _, t := range list {
			for _, e := range t.MatchExpressions {
				keys[e.Key] = true
			}
		}
	}
	for _, o := range objects {
		var spec *corev1.PodSpec
		switch o := o.(type) {
		case *corev1.Pod:
			spec = &o.Spec
		case *appsv1.DaemonSet:
			spec = &o.Spec.Template.Spec
		default:
			continue
		}
		for k := range spec.NodeSelector {
			keys[k] = true
		}
		for i := range spec.TopologySpreadConstraints {
			keys[spec.TopologySpreadConstraints[i].TopologyKey] = true
		}
		if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
			continue
		}
		if r := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			terms(r.NodeSelectorTerms)
		}
		for _, t := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms([]corev1.NodeSelectorTerm{t.Preference})
		}
	}
	return keys
}

// group is nodes that are alike to pods: they become one NodePool.
type group struct {
	labels map[string]string
	taints []corev1.Taint
	arch   string
	// special is the instance type if it has devices: then it is replaced by its like only.
	special string
	// kind is the capacity type: what is on demand now stays so.
	kind string
	// ofClusterAPI: the nodes are replicas of MachineDeployments.
	ofClusterAPI bool

	nodes []*corev1.Node
	names map[string]bool // of node groups
	zones map[string]bool
	types map[string]bool
	// categories are those of the types; old: one is of a generation that is not proposed otherwise.
	categories map[string]bool
	old        bool
}

func groupFor(n *corev1.Node, selected map[string]bool, p *prices) *group {
	g := &group{
		labels: map[string]string{}, names: map[string]bool{}, zones: map[string]bool{}, types: map[string]bool{}, categories: map[string]bool{},
		taints: nodegroups.OwnTaints(n), arch: architecture(n, p),
	}
	g.kind = capacityType(n)
	for k, v := range nodegroups.OwnLabels(n) {
		if selected[k] {
			g.labels[k] = v
		}
	}
	g.ofClusterAPI = p.groups.Nodes[n.Name].Priced
	if t := p.typeOf(n); hasDevices(t) {
		g.special = t.Name
	}
	slices.SortFunc(g.taints, func(a, b corev1.Taint) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect)) })
	return g
}

// architecture returns the CPU architecture of a node.
func architecture(n *corev1.Node, p *prices) string {
	if arch := n.Labels[corev1.LabelArchStable]; arch != "" {
		return arch
	}
	arch, _ := p.typeOf(n).Requirements[corev1.LabelArchStable].Only()
	return arch
}

// hasDevices reports whether a type has more than cpu, memory, disk and pods.
func hasDevices(t *catalog.Type) bool {
	for name := range t.Capacity {
		if !slices.Contains([]string{quantity.CPU, quantity.Memory, quantity.EphemeralStorage, quantity.Pods}, name) {
			return true
		}
	}
	return false
}

// key is equal for groups that are alike.
func (g *group) key() string {
	b, err := json.Marshal([]any{g.labels, g.taints, g.arch, g.special, g.kind, g.ofClusterAPI})
	if err != nil { // none of these can fail
		panic(err)
	}
	return string(b)
}

func (g *group) add(n *corev1.Node, p *prices) {
	g.nodes = append(g.nodes, n)
	_, deployment, _ := strings.Cut(p.groups.Nodes[n.Name].Deployment, "/")
	g.names[cmp.Or(deployment, nodegroups.Membership{}.GroupOf(n), n.Labels[label.NodePool], "nodes")] = true
	g.zones[n.Labels[corev1.LabelTopologyZone]] = true
	name := n.Labels[corev1.LabelInstanceTypeStable]
	g.types[name] = true
	if g.ofClusterAPI {
		return
	}
	if c, ok := p.byName[name].Requirements[categoryKey].Only(); ok {
		g.categories[c] = true
	}
	newer := label.Between(generationAbove+1, math.MaxInt64)
	g.old = g.old || !newer.Overlaps(p.byName[name].Requirements[generationKey])
}

// name returns the name of the first node group, as one of an object.
func (g *group) name() string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, slices.Sorted(maps.Keys(g.names))[0])
	return cmp.Or(strings.Trim(name[:min(len(name), 60)], "-"), "nodes")
}

func unique(taken map[string]bool, name string) string {
	out := name
	for i := 2; taken[out]; i++ {
		out = fmt.Sprintf("%s-%d", name, i)
	}
	taken[out] = true
	return out
}

// pool returns the NodePool that is proposed for the group.
func (g *group) pool(name string, class karpenterv1.NodeClassReference, terms Terms) *karpenterv1.NodePool {
	np := &karpenterv1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("NodePool/" + name)}}
	after := 10 * time.Minute
	np.Spec.Disruption = karpenterv1.Disruption{
		ConsolidationPolicy: karpenterv1.ConsolidationPolicyWhenEmptyOrUnderutilized, ConsolidateAfter: karpenterv1.NillableDuration{Duration: &after},
	}
	np.Spec.Template.Labels = g.labels
	if len(g.labels) == 0 {
		np.Spec.Template.Labels = nil
	}
	t := &np.Spec.Template.Spec
	t.NodeClassRef = &class
	t.Taints = g.taints
	kinds := []string{g.kind}
	if terms.Spot && g.kind != label.Spot {
		kinds = append(kinds, label.Spot)
	}
	require := func(key string, op corev1.NodeSelectorOperator, values ...string) {
		t.Requirements = append(t.Requirements, karpenterv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values})
	}
	require(label.CapacityType, corev1.NodeSelectorOpIn, kinds...)
	require(corev1.LabelArchStable, corev1.NodeSelectorOpIn, g.arch)
	require(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "linux")
	if !g.ofClusterAPI { // a MachineDeployment says where its nodes are, if anybody does
		require(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(g.zones))...)
	}
	if g.special != "" || terms.OwnTypes {
		require(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(g.types))...)
		return np
	}
	if g.ofClusterAPI {
		return np // allow says more
	}
	allowed := maps.Clone(g.categories)
	for _, c := range categories {
		allowed[c] = true
	}
	require(categoryKey, corev1.NodeSelectorOpIn, slices.Sorted(maps.Keys(allowed))...)
	if !g.old {
		require(generationKey, corev1.NodeSelectorOpGt, strconv.Itoa(generationAbove))
	}
	return np
}

// allow has a NodePool of replicas launch any type but those whose nodes all have other taints: their templates have them.
func (g *group) allow(np *karpenterv1.NodePool, p *prices, groups []*group) {
	same, other := map[string]bool{}, map[string]bool{}
	for _, o := range groups {
		into := other
		if slices.Equal(o.taints, g.taints) {
			into = same
		}
		maps.Copy(into, o.types)
	}
	r := karpenterv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn}
	for _, t := range p.groups.Types {
		if same[t.Name] || !other[t.Name] {
			r.Values = append(r.Values, t.Name)
		}
	}
	slices.Sort(r.Values)
	np.Spec.Template.Spec.Requirements = append(np.Spec.Template.Spec.Requirements, r)
}

// claim returns the NodeClaim that a node of the NodePool would have, and labels the node as its.
func claim(n *corev1.Node, np *karpenterv1.NodePool) *karpenterv1.NodeClaim {
	kind := capacityType(n)
	n.Spec.ProviderID = cmp.Or(n.Spec.ProviderID, "file:///"+n.Name)
	ref := np.Spec.Template.Spec.NodeClassRef
	for k, v := range map[string]string{
		label.NodePool: np.Name, label.CapacityType: kind, translate.ClassLabel(ref): ref.Name,
		karpenterv1.NodeRegisteredLabelKey: karpenterv1.LabelValueTrue, karpenterv1.NodeInitializedLabelKey: karpenterv1.LabelValueTrue,
	} {
		n.Labels[k] = v
	}
	nc := &karpenterv1.NodeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID("NodeClaim/" + n.Name), Labels: maps.Clone(n.Labels), CreationTimestamp: n.CreationTimestamp},
	}
	nc.Spec.NodeClassRef = ref
	nc.Spec.Taints = np.Spec.Template.Spec.Taints
	nc.Status = karpenterv1.NodeClaimStatus{NodeName: n.Name, ProviderID: n.Spec.ProviderID, Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
	for _, condition := range []string{karpenterv1.ConditionTypeLaunched, karpenterv1.ConditionTypeRegistered, karpenterv1.ConditionTypeInitialized} {
		nc.Status.Conditions = append(nc.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: condition, LastTransitionTime: n.CreationTimestamp})
	}
	return nc
}
